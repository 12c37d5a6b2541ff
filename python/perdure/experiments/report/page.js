// What a reader can do on the page: figures answer the pointer, tables sort and filter, a run's
// configuration opens. Without scripts the page still shows everything but the configurations.

const data = JSON.parse(document.getElementById("data").textContent);

// ---- Figures: drawn when they come near the screen, again when light or the page's width changes -

const dark = matchMedia("(prefers-color-scheme: dark)");
const AROUND = 90;  // pixels that an axis with its labels takes beside a figure
const NARROW = 640; // a page as narrow as that has no room beside a plot
const GAP = 20;     // between two panels
const LETTER = 6.5; // the width of a letter of a title or a legend

// What is drawn for paper, by what can be seen in the dark.
const INKS = { "#555": "#a9b2bc", "#222": "#e4e7eb" };

const WORDS = { text: LETTER * 1.25, subtitle: LETTER };

function lines(text, room, letter) {
  const found = [];
  for (const word of [text].flat().join(" ").split(" ")) {
    const longer = found.length ? `${found.at(-1)} ${word}` : word;
    if (found.length && longer.length * letter <= room) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}

// The room that there is: a title in several lines, fewer panels beside one another, narrower axes.
// What a figure needs to be read (`narrowest`) it keeps; the page lets the reader scroll then.
function fit(view, room, narrowest) {
  if (view.title) {
    view.title = typeof view.title === "string" || Array.isArray(view.title) ? { text: view.title } : view.title;
    for (const [part, letter] of Object.entries(WORDS)) {
      if (view.title[part]) view.title[part] = lines(view.title[part], room, letter);
    }
  }
  const inner = view.spec ?? view;
  if (view.hconcat && room < AROUND + view.hconcat.length * 300) {
    view.vconcat = view.hconcat;
    delete view.hconcat;
  }
  for (const part of view.vconcat ?? view.hconcat ?? []) {
    fit(part, view.hconcat ? room / view.hconcat.length : room, narrowest);
  }
  // Words beside a plot stand above their lines where there is no room for them.
  for (const layer of room < NARROW ? inner.layer ?? [] : []) {
    if (layer.mark?.type === "text" && layer.encoding.x?.value === "width") {
      Object.assign(layer.mark, { align: "right", dx: -4, dy: -6 });
    }
  }
  if (typeof inner.width !== "number") return;
  if (view.facet) view.columns = Math.max(1, Math.min(view.columns ?? Infinity, Math.floor((room - AROUND + GAP) / (inner.width + GAP))));
  if (narrowest !== undefined) inner.width = Math.min(inner.width, Math.max(narrowest, room - AROUND));
}

function legendColumns(figure, room) {
  const domains = JSON.stringify(figure).matchAll(/"domain":(\["[^\]]*\])/g);
  const longest = Math.max(0, ...[...domains].flatMap(([, names]) => JSON.parse(names).map((name) => name.length)));
  return Math.max(1, Math.floor(room / (LETTER * longest + 30)));
}

async function draw(place, fewer = 0) {
  const text = JSON.stringify(data.figures[place.dataset.figure]);
  const figure = JSON.parse(dark.matches ? text.replace(/"#555"|"#222"/g, (ink) => `"${INKS[ink.slice(1, -1)]}"`) : text);
  const box = place.parentElement;
  const room = box.clientWidth - 8;
  fit(figure, room, figure.usermeta?.narrowest);
  if (figure.facet) figure.columns = Math.max(1, figure.columns - fewer);
  const config = { legend: { columns: legendColumns(figure, room) } };
  const options = {
    renderer: "svg",
    ast: false,
    theme: dark.matches ? "dark" : undefined,
    config: dark.matches ? { ...config, background: "transparent" } : config,
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  place.dataset.drawn = room;
  await vegaEmbed(place, figure, options);
  // Names above panels may take more room than the panels do.
  if (figure.facet && figure.columns > 1 && sticksOut(box)) await draw(place, fewer + 1);
  hint(box);
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((entry) => entry.isIntersecting)) {
    seen.unobserve(entry.target);
    draw(entry.target);
  }
}, { rootMargin: "50%" });
const places = [...document.querySelectorAll("[data-figure]")];
places.forEach((place) => seen.observe(place));
dark.addEventListener("change", () => {
  places.filter((place) => place.dataset.drawn).forEach((place) => draw(place));
});

// ---- Scrolling: what is wider than the page says so ----------------------------------------------

const sticksOut = (box) => box.scrollWidth > box.clientWidth + 1;

function hint(box) {
  const more = sticksOut(box);
  box.toggleAttribute("data-more", more);
  if (more) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const place = target.querySelector("[data-drawn]");
    if (place && Math.abs(place.dataset.drawn - (target.clientWidth - 8)) > 8) draw(place);
    hint(target);
  }
});
for (const box of document.querySelectorAll(".scroll")) widths.observe(box);

// ---- Sorting ------------------------------------------------------------------------------------

function key(row, column) {
  const cell = row.cells[column];
  return cell.dataset.sort ?? cell.textContent.trim();
}

function sort(table, header) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  const column = header.cellIndex;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [key(row, column), row]);
  const numeric = rows.every(([text]) => text === "" || !Number.isNaN(Number(text)));
  rows.sort(([a], [b]) => (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true })));
  if (descending) rows.reverse();
  body.append(...rows.map(([, row]) => row));
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const header of table.tHead.rows[0].cells) {
    header.tabIndex = 0;
    header.addEventListener("click", () => sort(table, header));
    header.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(table, header);
      }
    });
  }
}

// ---- Filtering ----------------------------------------------------------------------------------

const buttons = [...document.querySelectorAll("button[data-verdict]")];

function filter(table) {
  const search = document.querySelector(`[data-search="${table.id}"]`).value.trim().toLowerCase();
  const verdict = buttons.find((button) => button.ariaPressed === "true")?.dataset.verdict;
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const wrongVerdict = row.dataset.verdict !== undefined && verdict && !row.dataset.verdict.split("|").includes(verdict);
    row.hidden = wrongVerdict || !row.textContent.toLowerCase().includes(search);
    shown += row.hidden ? 0 : 1;
  }
  const empty = table.closest("section").querySelector(".empty");
  if (empty) empty.hidden = shown > 0;
}

for (const input of document.querySelectorAll("[data-search]")) {
  const table = document.getElementById(input.dataset.search);
  input.addEventListener("input", () => {
    table.closest("details")?.setAttribute("open", "");
    filter(table);
  });
}
for (const button of buttons) {
  button.addEventListener("click", () => {
    for (const other of buttons) other.ariaPressed = String(other === button);
    filter(document.getElementById("claims-table"));
  });
}

// ---- Runs and their configurations --------------------------------------------------------------

const dialog = document.getElementById("configuration");
document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link?.dataset.configuration) {
    event.preventDefault();
    dialog.querySelector("pre").textContent = data.configurations[link.dataset.configuration];
    dialog.showModal();
  } else if (link?.hash.startsWith("#point-")) {
    document.getElementById("points-details").open = true;
  }
});
