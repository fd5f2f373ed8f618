"use strict";
// The tables of kernels, and pointing at the map and the matrix. The data of a table are columns of different values, with the
// index of the value in each row, so that sorting compares indices, and a search looks at every name once.

const SPARE = 12; // Rows that are drawn before and after those that can be seen.

// Title, field, what the title stands for, and the unit, except of registers.
const NUMBERS = [
  ["VGPR", "vgprs", "Vector registers; for NVIDIA GPUs, registers of a thread"],
  ["AGPR", "agprs", "Accumulation vector registers"],
  ["SGPR", "sgprs", "Scalar registers"],
  ["VSPILL", "vgpr_spills", "Spilled vector registers"],
  ["SSPILL", "sgpr_spills", "Spilled scalar registers"],
  ["SCRATCH", "scratch", "Scratch memory of a work-item", "bytes"],
  ["LDS", "lds", "Memory that a workgroup shares", "bytes"],
  ["CODE", "code_size", "Size of the code", "bytes"],
];

const FIELDS = [
  ["name", "Name"], ["mangled_name", "Mangled name"], ["target_id", "GPU"], ["change", "Change"], ["path", "File"],
  ["member", "Member"], ["section", "Section"], ["container", "Container"], ["entry_id", "Entry ID"], ["uri", "URI"],
];

const format = new Intl.NumberFormat("en-US");

/** A value as text. */
const shown = (value) =>
  value === null || value === undefined ? "" : typeof value === "number" ? format.format(value) : String(value);

/** The height of a row of kernels in pixels. */
const rowHeight = () => parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10);

/** The length of the text that two texts begin with. */
function commonStart(one, other) {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}

/** The start that all texts have in common. */
const startOfAll = (texts) => texts.reduce((start, text) => start.slice(0, commonStart(start, text)));

/** The length of a text without the characters at its end that a pattern matches. A pattern with `$` would take quadratic time. */
function lengthWithout(text, pattern) {
  let length = text.length;
  while (length > 0 && pattern.test(text[length - 1])) length--;
  return length;
}

/** The length of a name without its list of parameters. */
function parametersAt(name) {
  let depth = 0;
  for (let at = name.length - 1; at > 0 && name.endsWith(")"); at--) {
    if (name[at] === ")") depth++;
    if (name[at] === "(" && --depth === 0) return at;
  }
  return name.length;
}

/**
 * Names of kernels as they are shown: without "void" and the namespace of all, which is returned too. Each has four parts: the
 * function, the arguments that a neighbour in alphabetical order begins with as well, those that tell it apart, and its
 * parameters, unless only they tell it apart.
 */
function partsOfNames(names) {
  const plain = names.map((name) => String(name).replace(/^void /, ""));
  const start = plain.length > 1 ? startOfAll(plain).split(/[<(]/, 1)[0] : "";
  const namespace = start.slice(0, lengthWithout(start, /[^:]/));
  const whole = plain.map((name) => name.slice(namespace.length));
  const stems = whole.map((name) => name.slice(0, parametersAt(name)));
  const counts = new Map();
  for (const stem of stems) counts.set(stem, (counts.get(stem) ?? 0) + 1);
  const shownNames = stems.map((stem, index) => (counts.get(stem) > 1 ? whole[index] : stem));
  const sorted = [...new Set(shownNames)].sort();
  const alike = new Map(sorted.map((name, at) => {
    const length = Math.max(commonStart(name, sorted[at - 1] ?? ""), commonStart(name, sorted[at + 1] ?? ""));
    return [name, lengthWithout(name.slice(0, length), /\w/)];
  }));
  const parts = shownNames.map((name, index) => {
    const base = name.search(/[<(]|$/);
    const length = Math.max(base, alike.get(name));
    return [name.slice(0, base), name.slice(base, length), name.slice(length), whole[index].slice(name.length)];
  });
  return { namespace, parts };
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A field of all rows. */
class Field {
  constructor({ values, rows }) {
    this.values = values;
    this.rows = Uint32Array.from(rows);
  }

  at(row) {
    return this.values[this.rows[row]];
  }

  /** The value of a row as it is shown. */
  shownAt(row) {
    return this.textOf(this.rows[row]);
  }

  textOf(index) {
    return this.texts?.[index] ?? shown(this.values[index]);
  }

  /** The length of the longest text. */
  get longest() {
    return this.values.reduce((most, _, index) => Math.max(most, this.textOf(index).length), 0);
  }

  /** Whether no row has a value. */
  get isEmpty() {
    return this.values.every((value) => value === null);
  }

  /** Whether only some rows have a value. */
  get isPartial() {
    return this.values.includes(null);
  }

  /** The place of each value in the order of values; what is not recorded has the last one, or the first with `first`. */
  ranks(first) {
    const order = this.values.map((_, index) => index);
    const compare = (a, b) =>
      a === b ? 0
        : a === null ? (first ? -1 : 1)
        : b === null ? (first ? 1 : -1)
        : typeof a === "number" && typeof b === "number" ? a - b
        : natural.compare(String(a), String(b));
    const keys = this.texts ?? this.values;
    order.sort((a, b) => compare(keys[a], keys[b]));
    const ranks = new Uint32Array(order.length);
    order.forEach((index, rank) => (ranks[index] = rank));
    return ranks;
  }
}

const natural = new Intl.Collator("en", { numeric: true });

/** A number of kernels. */
const kernels = (count) => `${format.format(count)} ${count === 1 ? "kernel" : "kernels"}`;

/** The columns of a table: title, fields, explanation, width in pixels, and whether it is a number. */
function columnsOf(fields, isDiff, rows) {
  const has = (name) => fields[name] && !fields[name].isEmpty;
  const columns = [{ title: "Kernel", field: "name", about: "Name", width: 0 }];
  if (isDiff) columns.push({ title: "Change", field: "change", about: "In both files, or in one", width: 96 });
  if (has("target_id")) columns.push({ title: "GPU", field: "target_id", about: "Target ID" });
  for (const [title, field, about] of [["File", "file", "Package"], ["Library", "library", "File or member"]]) {
    if (fields[field]?.values.length > 1) columns.push({ title, field, about });
  }
  for (const [title, field, about, unit] of NUMBERS) {
    const used = isDiff ? [`new.${field}`, `old.${field}`] : [field];
    if (!used.some(has)) continue;
    fields[used[0]] ??= new Field({ values: [null], rows: new Uint32Array(rows) }); // Of kernels that were all removed.
    columns.push({ title, field: used[0], old: used[1], about, unit, isNumber: true });
  }
  // Numbers that only some GPUs have come last.
  columns.sort((a, b) => (a.isNumber && fields[a.field].isPartial) - (b.isNumber && fields[b.field].isPartial));
  for (const column of columns) {
    const { title, field, old, unit } = column;
    const characters = fields[field].longest + (fields[old] ? fields[old].longest + 3 : 0);
    column.width ??= Math.min(180, Math.ceil(Math.max(title.length * 9 + 30, (unit ?? "").length * 6 + 22, characters * 8 + 22)));
  }
  return columns;
}

class Table {
  constructor(place, data, isDiff) {
    this.fields = {};
    for (const [name, column] of Object.entries(data.columns)) this.fields[name] = new Field(column);
    this.count = data.rows;
    const { namespace, parts } = partsOfNames(this.fields.name.values);
    this.names = parts;
    this.fields.name.texts = parts.map((part) => part.join(""));
    this.namespace = namespace;
    this.columns = columnsOf(this.fields, isDiff, this.count);
    this.shownColumns = this.columns;
    this.order = Uint32Array.from({ length: this.count }, (_, row) => row);
    this.rows = this.order;
    this.sorted = null;
    this.label = isDiff ? "Kernels that differ" : "Kernels";
    this.build(place);
    this.filter();
  }

  build(place) {
    const isLast = !place.dataset.table.startsWith("changes"); // Its search has a key.
    this.search = element("input", { type: "search", spellcheck: "false", autocomplete: "off", ...(isLast && { "aria-keyshortcuts": "/" }) });
    const label = element("label", {}, isLast ? "Search names (key: /)" : "Search names", this.search);
    const filters = element("div", { class: "filters", role: "search" }, label);
    this.choices = this.columns
      .filter(({ field, isNumber }) => !isNumber && field !== "name" && this.fields[field].values.length > 1)
      .map((column) => this.choice(column, filters));
    this.status = element("output", { "aria-live": "polite" });
    filters.append(this.status);
    this.head = element("tr", { "aria-rowindex": 1 });
    this.headings = this.columns.map((column, index) => this.heading(column, index));
    this.widths = element("colgroup");
    this.body = element("tbody");
    this.table = element("table", { "aria-label": this.label }, this.widths, element("thead", {}, this.head), this.body);
    this.view = element("div", { class: "rows", tabindex: 0, role: "region", "aria-label": `${this.label}, scrolled` }, this.table);
    this.note = element("p", { class: "hint" });
    place.append(filters, this.view, this.note);
    matchMedia("(max-width: 1000px)").addEventListener("change", () => this.filter());
    let timer;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.filter(), 80);
    });
    this.view.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.view.addEventListener("keydown", (event) => this.move(event));
    this.body.addEventListener("click", ({ target }) => {
      if (target.closest("[data-row]")) details(this, Number(target.closest("[data-row]").dataset.row));
    });
  }

  /** Moves the focus to another row. The table is one stop of the tab key. */
  move(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey || this.head.contains(event.target)) return;
    event.preventDefault();
    const { row } = event.target.dataset;
    const from = row === undefined ? Math.floor(this.view.scrollTop / rowHeight()) - 1 : this.rows.indexOf(Number(row));
    const at = Math.max(0, Math.min(this.rows.length - 1, from + step));
    const height = rowHeight();
    const room = this.view.clientHeight - this.head.offsetHeight - height;
    this.view.scrollTop = Math.max(Math.min(this.view.scrollTop, at * height), at * height - room);
    this.draw();
    this.body.querySelector(`[data-row="${this.rows[at]}"]`)?.focus({ preventScroll: true });
  }

  /** A list of the values of a column. One of them can be chosen. */
  choice(column, filters) {
    const field = this.fields[column.field];
    const ranks = field.ranks();
    const values = field.values.map((value, index) => index).sort((a, b) => ranks[a] - ranks[b]);
    const options = values.map((index) => element("option", { value: index }, field.textOf(index) || "(none)"));
    const select = element("select", {}, element("option", { value: "" }, "All"), ...options);
    select.addEventListener("change", () => this.filter());
    filters.append(element("label", {}, column.title, select));
    return { field, select };
  }

  heading(column, index) {
    const attributesOfButton = { type: "button", title: column.about, ...(column.unit && { "data-unit": column.unit }) };
    const button = element("button", attributesOfButton, column.title);
    button.addEventListener("click", () => this.sort(index));
    const attributes = { scope: "col", "aria-sort": "none", "aria-colindex": index + 1 };
    return element("th", column.isNumber ? { ...attributes, class: "number" } : attributes, button);
  }

  /** Sorts by a column: names from a to z, numbers from the largest; the second time in the other order. */
  sort(index) {
    const { field, old, isNumber } = this.columns[index];
    const isAgain = this.sorted?.index === index;
    const isDescending = isAgain ? !this.sorted.isDescending : Boolean(isNumber);
    this.sorted = { index, isDescending };
    const { keys } = this.keys(field, old, isDescending);
    const sign = isDescending ? -1 : 1;
    this.order = Uint32Array.from({ length: this.count }, (_, row) => row).sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
    this.headings.forEach((cell, at) => {
      cell.setAttribute("aria-sort", at !== index ? "none" : isDescending ? "descending" : "ascending");
    });
    this.filter();
  }

  /** A number for each row, by which rows are sorted: of changes, the difference. */
  keys(name, old, isDescending) {
    const field = this.fields[name];
    if (old && this.fields[old]) {
      const before = this.fields[old];
      const keys = Float64Array.from({ length: this.count }, (_, row) => (field.at(row) ?? 0) - (before.at(row) ?? 0));
      return { keys };
    }
    const ranks = field.ranks(isDescending);
    return { keys: field.rows.map((value) => ranks[value]) };
  }

  /** Keeps the rows with all words in a name, and with the values that are chosen. */
  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const named = ["name", "mangled_name"].map((name) => this.fields[name]).filter(Boolean);
    const hits = named.map((field) => {
      field.lower ??= field.values.map((value) => String(value).toLowerCase());
      return field.lower.map((text) => words.every((word) => text.includes(word)));
    });
    const chosen = this.choices
      .filter(({ select }) => select.value !== "")
      .map(({ field, select }) => [field, Number(select.value)]);
    const isChosen = (row) => chosen.every(([field, value]) => field.rows[row] === value);
    const isKept = (row) =>
      (!words.length || named.some((field, index) => hits[index][field.rows[row]])) && isChosen(row);
    this.rows = words.length || chosen.length ? this.order.filter(isKept) : this.order;
    this.hideColumns(chosen.length ? this.order.filter(isChosen) : null);
    const all = kernels(this.count);
    this.status.value = this.rows.length === this.count ? all : `${format.format(this.rows.length)} of ${all}`;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.view.scrollTop = 0;
    this.drawn = undefined;
    this.draw();
  }

  /** Leaves out columns of numbers that are zero or empty in some rows, or in all rows if there is no list of rows. */
  hideColumns(rows) {
    const zeros = [];
    this.shownColumns = this.columns.filter((column, index) => {
      if (!column.isNumber || this.sorted?.index === index) return true;
      const fields = [column.field, column.old].map((name) => this.fields[name]).filter(Boolean);
      const values = new Set();
      for (const field of fields) {
        if (rows) rows.forEach((row) => values.add(field.at(row)));
        else field.values.forEach((value) => values.add(value));
      }
      const isUsed = [...values].some(Boolean);
      if (!isUsed && values.has(0)) zeros.push(column.title);
      return isUsed;
    });
    const widths = this.shownColumns.map(({ width }) => element("col", width ? { style: `width:${width}px` } : {}));
    this.widths.replaceChildren(...widths);
    this.head.replaceChildren(...this.shownColumns.map((column) => this.headings[this.columns.indexOf(column)]));
    this.table.setAttribute("aria-colcount", this.shownColumns.length);
    this.view.style.setProperty("--numbers", `${this.shownColumns.reduce((sum, { width }) => sum + width, 0)}px`);
    const left = [
      this.namespace && `${this.namespace} at the start of all names`,
      zeros.length > 0 && `${zeros.join(", ")}, never above 0`,
    ].filter(Boolean);
    this.note.textContent = `A click on a name shows all of the kernel.${left.length > 0 ? ` Left out: ${left.join("; ")}.` : ""}`;
  }

  /** Draws the rows that can be seen, and blank space in place of the others. */
  draw() {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(this.view.scrollTop / height) - SPARE);
    const end = Math.min(this.rows.length, first + Math.ceil(this.view.clientHeight / height) + 2 * SPARE);
    if (this.drawn === `${first} ${end}`) return;
    this.drawn = `${first} ${end}`;
    const focused = document.activeElement?.closest("tbody") === this.body ? document.activeElement.dataset.row : undefined;
    const rows = [];
    for (let at = first; at < end; at++) rows.push(this.row(this.rows[at], at));
    this.body.replaceChildren(this.blank(first), ...rows, this.blank(this.rows.length - end));
    if (focused !== undefined) {
      (this.body.querySelector(`[data-row="${focused}"]`) ?? this.view).focus({ preventScroll: true });
    }
  }

  blank(rows) {
    const cell = element("td", { class: "blank", colspan: this.shownColumns.length, style: `height:${rows * rowHeight()}px` });
    return element("tr", { "aria-hidden": "true" }, cell);
  }

  row(row, at) {
    return element("tr", { "aria-rowindex": at + 2 }, ...this.shownColumns.map((column) => this.cell(column, row)));
  }

  cell({ field, old, isNumber }, row) {
    const value = this.fields[field].at(row);
    if (field === "name") {
      const parts = this.names[this.fields.name.rows[row]];
      const [base, ...spans] = ["base", "alike", "own", "parameters"].map((name, at) => element("span", { class: name }, parts[at]));
      spans[0].style.minWidth = `${0.7 * Math.min(10, parts[1].length)}ch`; // The first of several arguments stays.
      return element("td", {}, element("button", { type: "button", tabindex: -1, title: value, "data-row": row }, base, element("span", { class: "arguments" }, ...spans)));
    }
    if (!isNumber) {
      const color = field === "change" && { added: "new", removed: "gap" }[value];
      return element("td", { title: shown(value), ...(color && { class: color }) }, this.fields[field].shownAt(row));
    }
    const before = old && this.fields[old]?.at(row);
    if (old === undefined || before === value) return element("td", { class: "number" }, shown(value));
    const isWorse = (value ?? 0) > (before ?? 0);
    return element("td", { class: isWorse ? "number worse" : "number" }, `${shown(before) || "–"} → ${shown(value) || "–"}`);
  }
}

/** Shows all that is known of a kernel. */
function details(table, row) {
  const dialog = document.getElementById("details");
  const list = [];
  const add = (title, value) => {
    if (value !== "") list.push(element("dt", {}, title), element("dd", {}, value));
  };
  const at = (name) => shown(table.fields[name]?.at(row));
  for (const [field, title] of FIELDS) {
    if (field !== "mangled_name" || at(field) !== at("name")) add(title, at(field));
  }
  for (const [title, field, about, unit] of NUMBERS) {
    const [value, before, after] = [at(field), at(`old.${field}`), at(`new.${field}`)];
    const text = value || (before === after ? after : `${before || "–"} → ${after || "–"}`);
    add(`${title}: ${about}`, text && unit ? `${text} ${unit}` : text);
  }
  dialog.querySelector("dl").replaceChildren(...list);
  dialog.showModal();
}

/** Shows the text of the rectangle or cell that is pointed at, tapped or reached with the arrow keys. */
function explain(area) {
  const hint = document.getElementById(area.dataset.hint);
  let chosen;
  const choose = (item) => {
    if (!item) return;
    // Several areas may share a hint, which describes one item.
    for (const other of document.querySelectorAll(`[data-hint=${area.dataset.hint}] .chosen`)) other.classList.remove("chosen");
    chosen = item;
    item.classList.add("chosen");
    hint.value = item.querySelector("title")?.textContent ?? cellText(item);
  };
  const visible = () => [...area.querySelectorAll("rect, tbody td")].filter((item) => item.getClientRects().length > 0);
  for (const type of ["pointerover", "click"]) area.addEventListener(type, ({ target }) => choose(target.closest("rect, tbody td")));
  area.addEventListener("focus", () => {
    if (area.matches(":focus-visible")) choose(chosen?.getClientRects().length > 0 ? chosen : visible()[0]);
  });
  area.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    choose(chosen ? nearest(chosen, visible(), step) : visible()[0]);
    chosen?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

/** A cell of the matrix with the GPU of its row and the library of its column. */
function cellText(cell) {
  const head = cell.closest("table").tHead.lastElementChild.cells[cell.cellIndex];
  return `${cell.parentElement.cells[0].textContent}: ${cell.title}; ${head.title}`;
}

/** The item next to another one in a direction, or undefined if there is none. */
function nearest(from, items, [x, y]) {
  const start = from.getBoundingClientRect();
  let [found, least] = [undefined, Infinity];
  for (const item of items) {
    const { left, top, width, height } = item.getBoundingClientRect();
    const [dx, dy] = [left - start.left + (width - start.width) / 2, top - start.top + (height - start.height) / 2];
    const along = dx * x + dy * y;
    const distance = along + 3 * Math.abs(dx * y + dy * x);
    if (along > 1 && distance < least) [found, least] = [item, distance];
  }
  return found;
}

/** Lets the right and the bottom edge of a box fade while there is more to scroll to. */
function fade(box) {
  const update = () => {
    box.classList.toggle("more-right", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
    box.classList.toggle("more-below", box.scrollHeight - box.clientHeight - box.scrollTop > 1);
  };
  box.addEventListener("scroll", update, { passive: true });
  const observer = new ResizeObserver(update);
  for (const observed of [box, box.firstElementChild]) observer.observe(observed);
}

/** The data of the page. */
async function load() {
  const { textContent, dataset } = document.getElementById("data");
  if (dataset.form === "json") return JSON.parse(textContent);
  const bytes = Uint8Array.from(atob(textContent), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

for (const area of document.querySelectorAll("[data-hint]")) explain(area);
document.getElementById("details").addEventListener("click", ({ target, currentTarget }) => {
  if (target === currentTarget) currentTarget.close(); // A click outside of the box.
});
load().then((data) => {
  const tables = {};
  for (const place of document.querySelectorAll("[data-table]")) {
    const name = place.dataset.table;
    if (!data[name] || data[name].rows === 0) {
      const text = name === "changes" ? "No kernel differs in code objects that both have." : "No kernels.";
      place.append(element("p", {}, text));
      continue;
    }
    tables[name] = new Table(place, data[name], name === "changes");
  }
  for (const box of document.querySelectorAll(".scroll, .rows")) fade(box);
  document.getElementById("kernels-total").textContent = kernels(data.kernels.rows);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, dialog");
    if (event.key === "/" && !isTyping && tables.kernels) {
      event.preventDefault();
      tables.kernels.search.focus();
    }
  });
  document.documentElement.dataset.state = "ready";
}).catch((error) => {
  const place = document.querySelector("[data-table=kernels]");
  place.append(element("p", { class: "gap", role: "alert" }, `The data of the tables could not be read: ${error.message}`));
  document.documentElement.dataset.state = "failed";
});
