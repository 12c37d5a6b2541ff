// What a reader can do on the page: figures answer the pointer, tables sort and filter, a run's
// configuration opens. Without scripts the page still shows everything but the configurations.

const data = JSON.parse(document.getElementById("data").textContent);

// ---- Figures: drawn when they come near the screen, again when light becomes dark ----------------

const dark = matchMedia("(prefers-color-scheme: dark)");

async function draw(place) {
  const options = {
    renderer: "svg",
    ast: false,
    theme: dark.matches ? "dark" : undefined,
    config: dark.matches ? { background: "transparent" } : {},
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  await vegaEmbed(place, structuredClone(data.figures[place.dataset.figure]), options);
  place.dataset.drawn = "true";
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
  places.filter((place) => place.dataset.drawn).forEach(draw);
});

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
  const verdict = buttons.find((button) => button.ariaPressed === "true").dataset.verdict;
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
