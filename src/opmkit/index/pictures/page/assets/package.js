// Selection of a package, a view, a channel and a bundle; lists of problems and changes.
function showPackage(number, channelName, bundleName) {
  state.number = number;
  const shown = current(), { channels } = shown;
  for (const entry of byId("packages").querySelectorAll("button")) {
    const isShown = Number(entry.dataset.number) === number;
    entry.setAttribute("aria-current", String(isShown));
    entry.tabIndex = isShown ? 0 : -1; // one stop of the Tab key, arrows move within
    if (isShown) scrollWithin(entry.closest("nav"), entry);
  }
  byId("package-select").value = String(number);
  byId("name").textContent = shown.name;
  byId("description").textContent = shown.description ?? "";
  byId("deprecation").textContent = shown.deprecated ? `Deprecated: ${shown.deprecated}` : "";
  showProblems(shown);
  showChanges(shown);
  byId("channel").replaceChildren(...channels.map((channel, index) => element("option", { value: index }, channel.name + remarksOfChannel(shown, channel))));
  byId("views").hidden = shown.order === undefined;
  const hasBundle = (channel, name) => channel?.rows.some((row) => shown.bundles[row.bundle]?.name === name) ?? false;
  let index = channels.findIndex((channel) => channel.name === (channelName ?? shown.default));
  if (bundleName !== undefined && channelName === undefined && !hasBundle(channels[index], bundleName))
    index = channels.findIndex((channel) => channel.rows.some((row) => isEntry(row) && shown.bundles[row.bundle]?.name === bundleName));
  showChannel(channels.length ? Math.max(index, 0) : -1, bundleName);
}

function remarksOfChannel(shown, channel) {
  const count = problemsIn(channel).length;
  const remarks = [channel.change, channel.name === shown.default && "default", channel.deprecated && "deprecated",
    count && plural(count, "problem")].filter(Boolean);
  return remarks.length ? ` (${remarks.join(", ")})` : "";
}

function showList(box, title, items, omitted) {
  box.hidden = items.length === 0;
  box.open = !phone.matches; // a phone shows the graph first
  box.querySelector("summary").textContent = title;
  if (omitted) items.push(element("li", {}, `and ${omitted} more`));
  box.querySelector("ul").replaceChildren(...items);
}

// Problems that do not fit without scrolling are collapsed to a line.
function showProblems({ problems = [], errors = 0, warnings = 0 }) {
  const title = [...(errors ? [plural(errors, "error")] : []), ...(warnings ? [plural(warnings, "warning")] : [])].join(" and ");
  const items = problems.map((problem) => element("li", { class: problem.severity }, ...linkedText(problem), ...linkedChannels(problem)));
  const box = byId("problems"), list = box.querySelector("ul");
  showList(box, title, items, errors + warnings - problems.length);
  if (list.scrollHeight > list.clientHeight) box.open = false;
}

function showChanges({ changes = [], counts = [0, 0, 0] }) {
  const items = changes.map((change) => element("li", { class: `change ${change.kind}` },
    element("span", { "aria-hidden": "true", class: "sign" }, SIGNS[change.kind]),
    ...linkedText({ text: change.text, marks: [{ channels: change.channel && [change.channel], names: change.bundle && [change.bundle] }] })));
  showList(byId("changes"), countChanges(counts), items, counts.reduce((sum, count) => sum + count, 0) - changes.length);
}

function countChanges(counts) {
  const parts = ["added", "removed", "changed"].map((kind, index) => counts[index] && `${counts[index]} ${kind}`);
  return `${plural(counts.reduce((sum, count) => sum + count, 0), "difference")}: ${parts.filter(Boolean).join(", ")}`;
}

// A problem or change of a channel or a bundle is a button that selects it, in the current channel if it is one of several.
function linkedText(subject) {
  const { channels } = current();
  const isIn = (channel) => marksIn(subject, channel).some((mark) => mark.channels || markedRow(subject, channel));
  const index = channels.findIndex(isIn);
  if (index < 0) return [subject.text];
  return [button(() => selectMark(subject, isIn(channels[state.index]) ? state.index : index), {}, subject.text)];
}

// The channels of a repeated problem, as buttons that select its bundle there.
function linkedChannels(problem) {
  const names = [...new Set(problem.marks.flatMap(({ channels = [] }) => channels))], { channels } = current();
  if (names.length < 2) return [];
  const links = names.map((name) => {
    const index = channels.findIndex((channel) => channel.name === name);
    return element("li", {}, index < 0 ? name : button(() => selectMark(problem, index), {}, name));
  });
  return [element("ul", { class: "channels", "aria-label": plural(names.length, "channel") }, ...links)];
}

const markedRow = (subject, channel) => {
  const names = new Set(marksIn(subject, channel).flatMap((mark) => mark.names ?? []));
  return channel.rows.find((row) => names.has(nameOf(row)));
};

function selectMark(subject, index) {
  const row = markedRow(subject, current().channels[index]);
  showChannel(index, row && nameOf(row));
  openSheet();
  graph.focus();
}

// On phones, the details are a sheet at the bottom of the screen, which can be closed.
const isClosed = () => phone.matches && document.body.classList.contains("closed");

function openSheet() {
  document.body.classList.remove("closed");
}

function closeSheet() {
  if (!phone.matches || isClosed()) return;
  document.body.classList.add("closed");
  announce("Details closed");
  graph.focus({ preventScroll: true });
}

function showChannel(index, bundleName) {
  state.index = index;
  const channel = current().channels[index];
  state.board = makeBoard();
  const { board } = state;
  foldRows(board);
  state.labels = labelsOf(board.indexes);
  for (const input of document.querySelectorAll("#views input")) input.checked = input.value === (board.isMulti ? state.view : "channel");
  byId("channel").value = String(index);
  byId("channel-label").hidden = board.isMulti;
  byId("channel-deprecation").textContent = board.indexes.filter((number) => current().channels[number].deprecated).map((number) => {
    const { name, deprecated } = current().channels[number];
    return `Channel ${board.isMulti ? `${name} ` : ""}deprecated: ${deprecated}`;
  }).join(" ");
  byId("count").textContent = countRows(board.rows);
  graph.setAttribute("aria-label", board.isMulti ? "Bundles of all channels, newest first" : `Bundles of the channel ${channel?.name ?? ""}, newest first`);
  const found = bundleName === undefined ? 0 : board.rows.findIndex((row) => nameOf(row) === bundleName);
  graph.scrollTop = 0;
  resize();
  const number = Math.min(Math.max(found, 0), board.rows.length - 1);
  selectRow(bundleName === undefined && isFolded(number) ? rowNear(0) : number);
  scrollToColumn();
}

function setChannel(index) {
  const row = state.board.rows[state.selected], top = graph.scrollTop;
  showChannel(index, row && nameOf(row));
  if (state.board.isMulti) graph.scrollTop = top;
  announce(`Channel ${current().channels[index].name}`);
}

function setView(view) {
  state.view = view;
  const row = state.board.rows[state.selected];
  showChannel(state.index, row && nameOf(row));
}

function countRows(rows) {
  const kindOf = (row) => changeOf(row) === "removed" ? "removed" : row.name !== undefined ? "missing"
    : [...row.cells.values()].some((cell) => isEntry(cell) && !isRemoved(cell)) ? "entry" : "outside";
  const kinds = rows.map(kindOf), count = (kind) => kinds.filter((other) => other === kind).length;
  const [entries, removed, missing, outside] = ["entry", "removed", "missing", "outside"].map(count);
  return [plural(entries, "bundle"), ...(removed ? [`${removed} removed`] : []), ...(missing ? [`${missing} missing`] : []),
    ...(outside ? [`${outside} not in the channel`] : [])].join(", ");
}

function selectRow(number) {
  state.selected = number;
  if (isFolded(number)) return setOnly(false);
  if (number >= 0) scrollToRow(number);
  paint();
  showLegend();
  showDetails();
  const parts = [current().name, ...(state.index < 0 ? [] : [current().channels[state.index].name])];
  if (number >= 0) parts.push(nameOf(state.board.rows[number]));
  const options = [...(state.view === "channel" ? [] : [`view=${state.view}`]), ...(state.only ? ["changes=only"] : [])];
  history.replaceState(null, "", `#${parts.map(encodeURIComponent).join("/")}${options.length ? "?" : ""}${options.join("&")}`);
}

function scrollToRow(number) {
  const size = ROW_HEIGHT * state.zoom, top = lineAt(number) * size;
  if (top < graph.scrollTop) graph.scrollTop = top - size;
  else if (top + size > graph.scrollTop + graph.clientHeight) graph.scrollTop = top + 2 * size + 8 - graph.clientHeight;
}

function listPackages() {
  byId("package-select").replaceChildren(...catalog.packages.map(({ name, problems }, number) =>
    element("option", { value: number }, name + (problems ? ` (${plural(problems, "problem")})` : ""))));
  byId("packages").replaceChildren(...catalog.packages.map(({ name, bundles, deprecated, problems, counts }, number) => {
    const present = bundles.filter(([, , change]) => change !== "removed").length;
    const remark = element("small", {}, plural(present, "bundle") + (deprecated ? ", deprecated" : ""));
    if (problems) remark.append(", ", element("span", { class: "problem" }, plural(problems, "problem")));
    if (counts) remark.append(element("br"), countChanges(counts));
    return element("li", {}, element("button", { type: "button", "data-number": number }, name, remark));
  }));
}
