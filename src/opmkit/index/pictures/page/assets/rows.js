// Rows of the graph: dots, versions and remarks, and the legend.
const SIGNS = { added: "+", removed: "−", changed: "±" };
const titleAt = (number) => titleOf(state.board.rows[number])[0];

function drawRow(number, count) {
  const { board, selected } = state, row = board.rows[number], change = changeOf(row);
  const [title, full] = titleOf(row), shown = [...(full ? [["muted", full]] : []), ...remarks(row, number)];
  const isApart = board.titleWidth > 0, name = svgElement("tspan", { class: `title ${change}` }, isApart ? fitTitle(title) : title);
  const label = svgElement("text", { class: "label", x: board.labelX(number), y: y(number) }, ...(isApart ? [] : [name]));
  for (const [kind, text] of shown) label.append(svgElement("tspan", { class: kind, dx: 8 }, text));
  const node = svgElement("g", {
    class: "row", role: "option", id: `row-${number}`, "data-number": number, "aria-selected": String(number === selected),
    "aria-posinset": board.lines[lineAt(number)].position, "aria-setsize": count,
    "aria-label": [title, ...shown.map(([, text]) => text), ...spokenEdges(row, number)].join(", "),
  }, svgElement("rect", { class: "band", x: 0, y: y(number) - ROW_HEIGHT / 2, width: 20000, height: ROW_HEIGHT }));
  for (const column of board.columns) if (column.isPresent(number)) node.append(...drawDot(column, row, number));
  const left = isApart && fixedWidth() ? graph.scrollLeft / state.zoom : 0;
  if (isApart) node.append(
    svgElement("rect", { class: "margin", x: left, y: y(number) - ROW_HEIGHT / 2, width: titlesEnd(), height: ROW_HEIGHT }),
    svgElement("text", { x: left + LEFT - 6, y: y(number) }, name));
  if (change) node.append(svgElement("text", { class: `sign ${change}`, x: left + 6, y: y(number) }, SIGNS[change]));
  node.append(label);
  if (board.isMulti) node.prepend(svgElement("title", {}, [[, title], ...shown].map(([, text]) => text).join(", ")));
  return node;
}

function drawDot(column, row, number) {
  const cells = column.indexes.filter((index) => row.cells.has(index)).map((index) => row.cells.get(index));
  const at = { cx: rowX(column, number), cy: y(number) };
  const kinds = ["dot", ...dotKinds(column, cells, number)];
  if (state.board.isMulti && cells.length && column.indexes.length === 1) kinds.push(colorOf(column.indexes[0]));
  const dots = [svgElement("circle", { class: kinds.join(" "), ...at, r: 5 })];
  const chosen = state.board.rows[state.selected];
  if (chosen && column.indexes.some((index) => chosen.cells.has(index) && row.cells.has(index) && inRange(chosen.cells.get(index), row.cells.get(index))))
    dots.push(svgElement("circle", { class: "ring", ...at, r: 9 }));
  return dots;
}

function dotKinds(column, cells, number) {
  const row = state.board.rows[number], kinds = [];
  if (!cells.some(isEntry)) kinds.push("outside");
  else if (column.to[number].some((edge) => edge.type === "skips" && isCurrent(edge))) kinds.push("skipped");
  if (bundleOf(row).deprecated) kinds.push("deprecated");
  const missing = column.to[number].some((edge) => edge.kind === "missing") || (row.name !== undefined && cells.some((cell) => isEntry(cell) && !isRemoved(cell)));
  if (missing || labelsIn(column, row)) kinds.push("problem");
  if (cells.length && cells.every(isRemoved)) kinds.push("removed");
  return kinds;
}

// Whether a problem with a bundle is one of the channels of a column.
function labelsIn(column, row) {
  const { problems = [], channels } = current();
  return state.labels.has(nameOf(row)) && problems.some((problem) =>
    column.indexes.some((index) => hasMark(problem, channels[index], nameOf(row))));
}

// Edges for screen readers: channels with the same edges are named together.
function spokenEdges(row, number) {
  const spoken = new Map();
  for (const column of state.board.columns) {
    for (const index of column.indexes.filter((candidate) => row.cells.has(candidate))) {
      const edges = column.from[number].filter((edge) => edge.channels.includes(index));
      const text = ["", "added", "removed"].flatMap((change) => spokenTypes(edges.filter((edge) => edge.change === change), change)).join(", ");
      spoken.set(text, [...(spoken.get(text) ?? []), index]);
    }
  }
  return [...spoken].flatMap(([text, indexes]) => state.board.isMulti
    ? [[`in ${channelNames(indexes)}`, text].filter(Boolean).join(": ")] : text ? [text] : []);
}

function spokenTypes(edges, change) {
  return ["replaces", "skips"].flatMap((type) => {
    const titles = edges.filter((edge) => edge.type === type).map((edge) => titleAt(edge.older));
    const verb = change === "removed" ? `no longer ${type}` : change === "added" && type === "replaces" ? "now replaces" : change === "added" ? "now skips" : type;
    return titles.length ? [`${verb} ${titles.length > 3 ? titles.length : titles.join(" and ")}`] : [];
  });
}

function remarks(row, number) {
  const { board } = state, shown = current(), result = [], labels = state.labels.get(nameOf(row)) ?? [];
  const cells = [...row.cells], entries = cells.filter(([, cell]) => isEntry(cell)), change = changeOf(row);
  for (const [, text] of labels) result.push(["problem", text]);
  for (const text of changesOf(row)) result.push([`change ${change || "changed"}`, text]);
  const isMarked = (index) => problemsIn(shown.channels[index]).some((problem) => hasMark(problem, shown.channels[index], nameOf(row)));
  const heads = entries.filter(([index, cell]) => !isRemoved(cell) && isHead(index, number) &&
    !(board.isMulti && isMarked(index))).map(([index]) => index);
  if (labels.length && !board.isMulti && (heads.length || !entries.length)) return result;
  if (!entries.length && !labels.length) result.push(["muted", board.isMulti ? "in no channel" : "not in this channel"]);
  else if (board.isMulti && heads.length) result.push(["muted", `head of ${channelNames(heads)}`]);
  else if (heads.length) result.push(["muted", shown.channels[heads[0]].name === shown.default ? "head of the default channel" : "head"]);
  if (board.isMerged && entries.length > heads.length && entries.length < board.indexes.length) result.push(["muted", `only in ${channelNames(entries.map(([index]) => index))}`]);
  if (board.isMerged) result.push(...differentTargets(number));
  if (bundleOf(row).deprecated) result.push(["warning", "deprecated"]);
  if (entries.length && edgesTo(number).some((edge) => edge.type === "skips" && isCurrent(edge)) && change !== "removed") result.push(["muted", "skipped"]);
  for (const range of new Set(entries.map(([, cell]) => cell.range).filter(Boolean))) result.push(["muted", `skip range ${range}`]);
  return result;
}

const isHead = (index, number) => !edgesTo(number).some((edge) => isCurrent(edge) && edge.channels.includes(index));

// What a bundle replaces where that is not the same in all its channels.
function differentTargets(number) {
  const edges = edgesFrom(number).filter((edge) => edge.type === "replaces" && isCurrent(edge));
  return edges.length < 2 ? [] : edges.map((edge) => ["muted", `${channelNames(edge.channels)}: replaces ${titleAt(edge.older)}`]);
}

// Only what is in the graph.
function showLegend() {
  const { board, selected, labels } = state, { columns, rows } = board, edges = columns.flatMap((column) => column.edges);
  const kinds = new Set(columns.flatMap((column) => rows.flatMap((row, number) => {
    if (!column.isPresent(number)) return [];
    const found = dotKinds(column, column.indexes.filter((index) => row.cells.has(index)).map((index) => row.cells.get(index)), number);
    return found.some((kind) => ["skipped", "outside"].includes(kind)) ? found : ["bundle", ...found];
  })));
  const changes = new Set([...edges.map((edge) => edge.change), ...rows.map(changeOf)]), chosen = rows[selected];
  const isColored = (edge) => !edge.kind && isCurrent(edge);
  const present = {
    bundle: kinds.has("bundle"), skipped: kinds.has("skipped"), deprecated: kinds.has("deprecated"), outside: kinds.has("outside"),
    problem: rows.some((row) => labels.has(nameOf(row))),
    replaces: edges.some((edge) => edge.type === "replaces" && isColored(edge)), skips: edges.some((edge) => edge.type === "skips"),
    cycle: edges.some((edge) => edge.kind === "cycle"), missing: edges.some((edge) => edge.kind === "missing"),
    "in-range": chosen && rows.some((row) => [...chosen.cells].some(([index, cell]) => row.cells.has(index) && inRange(cell, row.cells.get(index)))),
    several: board.isMulti && edges.some((edge) => isColored(edge) && edge.channels.length > MAX_STROKES),
    added: changes.has("added"), removed: changes.has("removed"), changed: changes.has("changed"),
  };
  for (const item of document.querySelectorAll(".legend [data-kind]")) item.hidden = !present[item.dataset.kind];
  byId("package").classList.toggle("multi", board.isMulti);
  const names = board.isMerged ? board.indexes.slice(0, 24).map((index) => element("span", {}, element("i", { class: `line ${colorOf(index)}` }), ` ${current().channels[index].name}`)) : [];
  if (names.length && board.indexes.length > 24) names.push(`and ${board.indexes.length - 24} more channels`);
  byId("channel-colors").replaceChildren(...names);
}
