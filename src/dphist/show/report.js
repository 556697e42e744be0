"use strict";
// Search, sort and pages of the table. Texts are set as text, never as HTML. Without this script the first rows are there.
(() => {
  const source = document.getElementById("rows");
  if (source === null) return;
  const { kinds, rows } = JSON.parse(source.textContent);
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const status = document.getElementById("status");
  const search = document.getElementById("search");
  const size = document.getElementById("size");
  const buttons = Object.fromEntries(["first", "back", "next", "last"].map((id) => [id, document.getElementById(id)]));
  const heads = [...table.tHead.rows[0].cells];
  const isKey = kinds.map((kind) => kind !== "value");
  const names = new Intl.Collator("en", { numeric: true });
  const searched = rows.map((row) => row.filter((_, i) => isKey[i]).map((cell) => cell ?? "(null)").join(" ").toLowerCase());
  const all = rows.map((_, i) => i);
  const state = { page: 0, found: all, column: null, down: false, whole: false };

  const number = (text) => Number.parseFloat(text.replaceAll(",", ""));
  const compare = (a, b, kind) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (kind === "text") return names.compare(a, b);
    const [x, y] = [number(a), number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) : x - y;
  };

  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = wanted === "" ? [...all] : all.filter((i) => searched[i].includes(wanted));
    if (state.column !== null) {
      const [column, sign] = [state.column, state.down ? -1 : 1];
      found.sort((i, j) => sign * compare(rows[i][column], rows[j][column], kinds[column]) || i - j);
    }
    state.found = found;
    state.page = 0;
    show();
  };

  const cell = (text, kind) => {
    const made = document.createElement("td");
    made.className = kind;
    if (kind === "value") {
      const gap = text.indexOf(" ± ");
      made.textContent = gap === -1 ? text : text.slice(0, gap + 1);
      if (gap !== -1) {
        made.append(document.createElement("span"));
        made.lastChild.textContent = text.slice(gap + 1);
      }
      return made;
    }
    const inner = document.createElement("div");
    if (text === null) {
      inner.append(document.createElement("i"));
      inner.firstChild.textContent = "(null)";
    } else {
      inner.textContent = text;
    }
    made.append(inner);
    return made;
  };

  const show = () => {
    const most = state.whole ? Math.max(state.found.length, 1) : Number(size.value);
    const pages = Math.max(Math.ceil(state.found.length / most), 1);
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const start = state.page * most;
    const shown = state.found.slice(start, start + most);
    body.replaceChildren(...shown.map((i) => {
      const line = document.createElement("tr");
      line.append(...rows[i].map((text, column) => cell(text, kinds[column])));
      return line;
    }));
    const count = (value) => value.toLocaleString("en-US");
    const some = state.found.length === rows.length ? "" : ` that match, of ${count(rows.length)} in all`;
    status.textContent = shown.length === 0 ? "No row matches."
      : `Rows ${count(start + 1)} to ${count(start + shown.length)} of ${count(state.found.length)}${some}.`;
    const off = { first: state.page === 0, back: state.page === 0, next: state.page === pages - 1, last: state.page === pages - 1 };
    for (const [id, button] of Object.entries(buttons)) button.setAttribute("aria-disabled", off[id]);
    buttons.first.parentElement.hidden = pages === 1;
  };

  const turn = { first: () => 0, back: () => state.page - 1, next: () => state.page + 1, last: () => Infinity };
  for (const [id, button] of Object.entries(buttons)) {
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      state.page = turn[id]();
      show();
    });
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      state.down = state.column === column ? !state.down : !isKey[column];
      state.column = column;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      find();
    });
  });

  search.addEventListener("input", find);
  size.addEventListener("change", () => {
    state.page = 0;
    show();
  });
  document.querySelector(".controls").hidden = rows.length === 1;

  // On paper there are no pages to turn: the appendix is open, and a table of a few sheets is there as a whole.
  const details = document.querySelector("details");
  let wasOpen = null;
  const print = (on) => {
    if (on === (wasOpen !== null)) return;
    if (on) {
      wasOpen = details.open;
      details.open = true;
    } else {
      details.open = wasOpen;
      wasOpen = null;
    }
    state.whole = on && state.found.length <= 2000;
    show();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  show();
})();
