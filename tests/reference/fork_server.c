/* A library that turns a tool of LLVM into a server (LD_PRELOAD). The tool loads its libraries once, and then runs `main` in
 * a fork for each command line. Loading takes 25 ms, most of the time of a command line; a fork takes 5 ms.
 *
 * A request on standard input is its length (4 bytes) and strings that each end with a zero byte: the number of arguments,
 * the directory, the files for standard input, output and error, the arguments from the tool's name on, and the environment
 * variables. The answer on standard output is the status from `waitpid` (4 bytes).
 *
 * Differences from a plain start: all forks share one address layout, and static constructors see an empty environment. The
 * heap is the same: the server allocates pages of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

/* The seconds of processor time after which SIGPROF ends a run, and the seconds after which SIGALRM ends one that waits. */
enum { PATIENCE = 20, WATCHDOG = 600 };

static main_function *tool;

static void read_exactly(void *data, size_t len) {
  for (ssize_t count; len > 0; data = (char *)data + count, len -= count)
    if ((count = read(0, data, len)) <= 0)
      _exit(0); /* The tests have ended. */
}

/* Memory outside of the heap, filled with zeros. */
static void *allocate(size_t len) {
  void *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    _exit(127);
  return data;
}

static void redirect(const char *path, int flags, int descriptor) {
  int opened = open(path, flags, 0666);
  if (opened < 0 || dup2(opened, descriptor) < 0)
    _exit(127);
  close(opened);
}

/* Runs the request in this process. */
static int run(char *request, char *end) {
  char **strings = allocate((end - request + 1) * sizeof *strings);
  for (size_t count = 0; request < end; request += strlen(request) + 1)
    strings[count++] = request;
  int argc = atoi(strings[0]);
  if (chdir(strings[1]) != 0)
    _exit(127);
  redirect(strings[2], O_RDONLY, 0);
  redirect(strings[3], O_WRONLY | O_CREAT | O_TRUNC, 1);
  redirect(strings[4], O_WRONLY | O_CREAT | O_TRUNC, 2);
  char **argv = allocate((argc + 1) * sizeof *argv);
  memcpy(argv, strings + 5, argc * sizeof *argv);
  environ = strings + 5 + argc;
  const struct itimerval patience = {.it_value = {.tv_sec = PATIENCE}};
  setitimer(ITIMER_PROF, &patience, NULL);
  alarm(WATCHDOG);
  return tool(argc, argv, environ);
}

static int serve(int argc, char **argv, char **variables) {
  (void)argc, (void)argv, (void)variables;
  for (;;) {
    uint32_t len;
    read_exactly(&len, sizeof len);
    char *request = allocate(len);
    read_exactly(request, len);
    int status;
    pid_t child = fork();
    if (child == 0)
      return run(request, request + len);
    if (child < 0 || waitpid(child, &status, 0) != child || write(1, &status, sizeof status) != sizeof status)
      return 1;
    munmap(request, len);
  }
}

/* Replaces the function of the C library that calls `main` after all libraries are initialized. */
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
  tool = main;
  start_function *start = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
  return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
