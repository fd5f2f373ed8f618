# complete.zsh SCRIPT 'command line'...: what zsh offers for the end of each line, one a line, then `--end--`.
setopt extendedglob
zmodload zsh/zpty || exit 3
zpty inner zsh -f -i
zpty -w inner 'PS1=; unsetopt zle_bracketed_paste auto_list auto_menu beep 2>/dev/null; stty -echo'
zpty -w inner 'autoload -Uz compinit; compinit -u -D; source '${(q)1}
zpty -w inner 'compadd() { if [[ " $* " != *" -"[OAD]" "* ]]; then local -a hits; builtin compadd -A hits "$@"; print -r -l -- "offer:"$^hits; fi; builtin compadd "$@" }'
# The functions to call afterwards are forgotten at each completion.
zpty -w inner 'finish() { print -r "offered"; comppostfuncs=(finish) }; comppostfuncs=(finish)'
zpty -w inner 'bindkey "^I" complete-word "^U" kill-whole-line'
zpty -w inner 'print ready"(now)"'
while zpty -r inner line; do [[ $line == *'ready(now)'* ]] && break; done
for typed in "${@:2}"; do
  zpty -w -n inner $'\C-u'"$typed"$'\t'
  while zpty -r inner line; do
    line=${line%%[$'\r\n']##}
    [[ $line == *offer:* ]] && print -r -- "${line##*offer:}"
    [[ $line == *offered* ]] && break
  done
  print -r -- --end--
done
zpty -d inner
