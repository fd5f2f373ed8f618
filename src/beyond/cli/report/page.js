"use strict";
// The tables of kernels. Their data are columns of different values, with the index of the value in each row, so that sorting
// compares indices, and a search looks at every name once.

const ROW = 28; // The height of a row, as in the styles.
const SPARE = 12; // Rows that are drawn before and after those that can be seen.

// Title, field, and what the title stands for.
const NUMBERS = [
  ["VGPR", "vgprs", "Vector registers; for NVIDIA GPUs, registers of a thread"],
  ["AGPR", "agprs", "Accumulation vector registers"],
  ["SGPR", "sgprs", "Scalar registers"],
  ["VSPILL", "vgpr_spills", "Spilled vector registers"],
  ["SSPILL", "sgpr_spills", "Spilled scalar registers"],
  ["SCRATCH", "scratch", "Scratch memory of a work-item in bytes"],
  ["LDS", "lds", "Memory that a workgroup shares, in bytes"],
  ["CODE", "code_size", "Size of the code in bytes"],
];

const FIELDS = [
  ["name", "Name"], ["mangled_name", "Mangled name"], ["target_id", "GPU"], ["change", "Change"], ["path", "File"],
  ["member", "Member"], ["section", "Section"], ["container", "Container"], ["entry_id", "Entry ID"], ["uri", "URI"],
];

const format = new Intl.NumberFormat("en-US");

/** A value as text. */
const shown = (value) =>
  value === null || value === undefined ? "" : typeof value === "number" ? format.format(value) : String(value);

/** The last part of a path. */
const last = (path) => (path === null ? "" : String(path).replace(/^.*\/(?=.)/, ""));

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

  /** Whether no row has a value. */
  get isEmpty() {
    return this.values.every((value) => value === null);
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
    order.sort((a, b) => compare(this.values[a], this.values[b]));
    const ranks = new Uint32Array(order.length);
    order.forEach((index, rank) => (ranks[index] = rank));
    return ranks;
  }
}

const natural = new Intl.Collator("en", { numeric: true });

/** A number of kernels. */
const kernels = (count) => `${format.format(count)} ${count === 1 ? "kernel" : "kernels"}`;

/** The columns of a table: title, fields, explanation, width in pixels, whether it is a number, and what a row shows. */
function columnsOf(fields, isDiff, rows) {
  const has = (name) => fields[name] && !fields[name].isEmpty;
  const columns = [{ title: "Kernel", field: "name", about: "Name", width: 0 }];
  if (isDiff) columns.push({ title: "Change", field: "change", about: "In both files, or in one", width: 100 });
  columns.push({ title: "GPU", field: "target_id", about: "Target ID", width: 130 });
  const place = ["member", "path"].find((name) => has(name) && fields[name].values.length > 1);
  if (place) columns.push({ title: "Library", field: place, about: "File or member", width: 144, text: last });
  for (const [title, field, about] of NUMBERS) {
    const used = isDiff ? [`new.${field}`, `old.${field}`] : [field];
    if (!used.some(has)) continue;
    fields[used[0]] ??= new Field({ values: [null], rows: new Uint32Array(rows) }); // Of kernels that were all removed.
    columns.push({ title, field: used[0], old: used[1], about, width: isDiff ? 124 : title.length > 4 ? 88 : field === "code_size" ? 84 : 66, isNumber: true });
  }
  return columns.filter(({ field }) => fields[field]);
}

class Table {
  constructor(place, data, isDiff) {
    this.fields = {};
    for (const [name, column] of Object.entries(data.columns)) this.fields[name] = new Field(column);
    this.count = data.rows;
    this.columns = columnsOf(this.fields, isDiff, this.count);
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
    this.head = element("tr", { "aria-rowindex": 1 }, ...this.columns.map((column, index) => this.heading(column, index)));
    this.body = element("tbody");
    const widths = this.columns.map(({ width }) => element("col", width ? { style: `width:${width}px` } : {}));
    this.table = element(
      "table", { "aria-label": this.label, "aria-colcount": this.columns.length },
      element("colgroup", {}, ...widths), element("thead", {}, this.head), this.body,
    );
    this.view = element("div", { class: "rows", tabindex: 0, role: "region", "aria-label": `${this.label}, scrolled` }, this.table);
    this.view.style.setProperty("--least", `${this.columns.reduce((sum, { width }) => sum + width, 220)}px`);
    place.append(filters, this.view);
    let timer;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.filter(), 80);
    });
    this.view.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.view.addEventListener("keydown", (event) => this.move(event));
    this.body.addEventListener("click", ({ target }) => {
      if (target.dataset.row) details(this, Number(target.dataset.row));
    });
  }

  /** Moves the focus to another row. The table is one stop of the tab key. */
  move(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey || this.head.contains(event.target)) return;
    event.preventDefault();
    const { row } = event.target.dataset;
    const from = row === undefined ? Math.floor(this.view.scrollTop / ROW) - 1 : this.rows.indexOf(Number(row));
    const at = Math.max(0, Math.min(this.rows.length - 1, from + step));
    const room = this.view.clientHeight - this.head.offsetHeight - ROW;
    this.view.scrollTop = Math.max(Math.min(this.view.scrollTop, at * ROW), at * ROW - room);
    this.draw();
    this.body.querySelector(`[data-row="${this.rows[at]}"]`)?.focus({ preventScroll: true });
  }

  /** A list of the values of a column, of which one can be chosen. */
  choice(column, filters) {
    const field = this.fields[column.field];
    const ranks = field.ranks();
    const values = field.values.map((value, index) => index).sort((a, b) => ranks[a] - ranks[b]);
    const text = (index) => shown((column.text ?? shown)(field.values[index])) || "(none)";
    const options = values.map((index) => element("option", { value: index }, text(index)));
    const select = element("select", {}, element("option", { value: "" }, "All"), ...options);
    select.addEventListener("change", () => this.filter());
    filters.append(element("label", {}, column.title, select));
    return { field, select };
  }

  heading(column, index) {
    const button = element("button", { type: "button", title: column.about }, column.title);
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
    [...this.head.children].forEach((cell, at) => {
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
    const isKept = (row) =>
      (!words.length || named.some((field, index) => hits[index][field.rows[row]])) &&
      chosen.every(([field, value]) => field.rows[row] === value);
    this.rows = words.length || chosen.length ? this.order.filter(isKept) : this.order;
    const all = kernels(this.count);
    this.status.value = this.rows.length === this.count ? all : `${format.format(this.rows.length)} of ${all}`;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.view.scrollTop = 0;
    this.drawn = undefined;
    this.draw();
  }

  /** Draws the rows that can be seen, and blank space in place of the others. */
  draw() {
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW) - SPARE);
    const end = Math.min(this.rows.length, first + Math.ceil(this.view.clientHeight / ROW) + 2 * SPARE);
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
    const cell = element("td", { class: "blank", colspan: this.columns.length, style: `height:${rows * ROW}px` });
    return element("tr", { "aria-hidden": "true" }, cell);
  }

  row(row, at) {
    return element("tr", { "aria-rowindex": at + 2 }, ...this.columns.map((column) => this.cell(column, row)));
  }

  cell({ field, old, isNumber, text = shown }, row) {
    const value = this.fields[field].at(row);
    if (field === "name") {
      const button = element("button", { type: "button", tabindex: -1, title: value, "data-row": row }, value);
      return element("td", {}, button);
    }
    if (!isNumber) return element("td", { title: shown(value) }, shown(text(value)));
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
  for (const [title, field, about] of NUMBERS) {
    const [value, before, after] = [at(field), at(`old.${field}`), at(`new.${field}`)];
    add(`${title}: ${about}`, value || (before === after ? after : `${before || "–"} → ${after || "–"}`));
  }
  dialog.querySelector("dl").replaceChildren(...list);
  dialog.showModal();
}

/** The data of the page. */
async function load() {
  const { textContent, dataset } = document.getElementById("data");
  if (dataset.form === "json") return JSON.parse(textContent);
  const bytes = Uint8Array.from(atob(textContent), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

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
