// Keys, buttons and the start of the page.
function zoomBy(factor) {
  const before = state.zoom;
  state.zoom = factor === 0 ? 1 : Math.min(4, Math.max(0.1, before * factor));
  const middle = graph.scrollTop + graph.clientHeight / 2;
  resize();
  graph.scrollTop = (middle * state.zoom) / before - graph.clientHeight / 2;
  paint();
}

function onGraphKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const page = Math.max(1, Math.floor(graph.clientHeight / (ROW_HEIGHT * state.zoom)) - 1), end = state.board.lines.length - 1;
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const channels = { ArrowLeft: -1, ArrowRight: 1 };
  const zooms = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 };
  if (event.key in moves) selectRow(rowNear(Math.min(end, Math.max(0, lineAt(state.selected) + moves[event.key])), Math.sign(moves[event.key])));
  else if (event.key in zooms) zoomBy(zooms[event.key]);
  else if (event.key === "n" || event.key === "p") selectMarked(event.key === "n" ? 1 : -1);
  else if (event.key === "v" && current().order) setView(VIEWS[(VIEWS.indexOf(state.view) + 1) % VIEWS.length]);
  else if (event.key === "Enter" && isClosed()) openSheet();
  else if (event.key === "c" && catalog.compared) setOnly(!state.only);
  else if (event.key in channels && state.board.isMulti) stepChannel(channels[event.key]);
  else return;
  event.preventDefault();
}

// Selects the next row with a problem or a change.
function selectMarked(step) {
  const { rows } = state.board, count = rows.length;
  for (let distance = 1; distance <= count; distance += 1) {
    const number = (state.selected + step * distance + count * distance) % count, row = rows[number];
    if (isFolded(number)) continue;
    if (state.labels.has(nameOf(row)) || changeOf(row) || changesOf(row).length) return selectRow(number);
  }
}

function stepChannel(step) {
  const index = Math.min(current().channels.length - 1, Math.max(0, state.index + step));
  if (index !== state.index) setChannel(index);
}

function onPackagesKey(event) {
  const buttons = [...byId("packages").querySelectorAll("button")], end = buttons.length - 1;
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }, index = buttons.indexOf(document.activeElement);
  if (!(event.key in steps) || index < 0) return;
  buttons[Math.min(end, Math.max(0, index + steps[event.key]))].focus();
  event.preventDefault();
}

function onSearchKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const step = event.key === "ArrowDown" ? 1 : -1;
    if (hits.length) active = (active + step + hits.length) % hits.length;
    markActive();
  } else if (event.key === "Enter") openHit(active);
  else if (event.key === "Escape") closeResults();
  else return;
  event.preventDefault();
}

const themes = ["system", "light", "dark"], system = matchMedia("(prefers-color-scheme: dark)");
let theme = 0;
function applyTheme() {
  const dark = themes[theme] === "dark" || (themes[theme] === "system" && system.matches);
  document.documentElement.classList.toggle("dark", dark);
  byId("theme").setAttribute("aria-label", `Theme: ${themes[theme]}`);
  byId("theme").textContent = "◐☀☾"[theme];
}

// The fragment of the URL is PACKAGE/CHANNEL/BUNDLE?view=VIEW; names are percent-encoded.
function openFragment() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [name, channel, bundle] = path.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const options = new URLSearchParams(query), view = options.get("view");
  state.view = VIEWS.includes(view) ? view : "channel";
  state.only = catalog.compared !== undefined && options.get("changes") === "only";
  byId("only").checked = state.only;
  const number = Math.max(0, catalog.packages.findIndex((candidate) => candidate.name === name));
  if (catalog.packages.length) showPackage(number, channel, bundle);
  else byId("name").textContent = catalog.compared ? "The catalogs do not differ." : "The catalog is empty.";
}

byId("packages").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) showPackage(Number(button.dataset.number));
});
byId("packages").addEventListener("keydown", onPackagesKey);
byId("package-select").addEventListener("change", (event) => showPackage(Number(event.target.value)));
byId("close").addEventListener("click", closeSheet);
byId("skip").addEventListener("click", () => graph.focus());
byId("channel").addEventListener("change", (event) => setChannel(Number(event.target.value)));
byId("only-label").hidden = !catalog.compared;
byId("only").addEventListener("change", (event) => setOnly(event.target.checked));
byId("views").addEventListener("change", (event) => setView(event.target.value));
window.addEventListener("hashchange", openFragment);
byId("in").addEventListener("click", () => zoomBy(1.25));
byId("out").addEventListener("click", () => zoomBy(0.8));
byId("reset").addEventListener("click", () => zoomBy(0));
byId("theme").addEventListener("click", () => { theme = (theme + 1) % themes.length; applyTheme(); });
system.addEventListener("change", applyTheme);
graph.addEventListener("scroll", repaint, { passive: true });
byId("columns").addEventListener("focusin", () => { graph.scrollLeft = byId("columns").scrollLeft; });
graph.addEventListener("keydown", onGraphKey);
graph.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row) {
    openSheet();
    selectRow(Number(row.dataset.number));
  } else if (event.target.closest(".fold")) setOnly(false);
});
graph.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoomBy(event.deltaY < 0 ? 1.25 : 0.8);
}, { passive: false });
search.addEventListener("input", showResults);
search.addEventListener("focus", showResults);
search.addEventListener("blur", closeResults);
search.addEventListener("keydown", onSearchKey);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !document.activeElement?.matches("input[type=search], select, textarea")) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && !event.defaultPrevented) closeSheet();
});
new ResizeObserver(repaint).observe(graph);

applyTheme();
listPackages();
byId("compared").textContent = catalog.compared ? `${catalog.compared.title} ${countChanges(catalog.compared.counts)}.` : "";
openFragment();
