// A board is what is drawn: rows with bundles, edges between them, and columns of lanes. It contains one channel, or all
// channels of a package, in columns or merged. Each row has the rows of the channels that contain its bundle as `cells`.
const LEFT = 24, LANE_WIDTH = 18, ARCS_WIDTH = 60, NARROW_ARCS_WIDTH = 26, MAX_STROKES = 3, COLORS = 8;
const MIN_TITLE_WIDTH = 160, MAX_NAME_LENGTH = 180, MAX_NAME_LINES = 4, NAME_LINE = 18;

function makeBoard() {
  const shown = current(), { channels } = shown;
  const isMulti = state.view !== "channel" && shown.order !== undefined;
  const indexes = isMulti ? channels.map((_, index) => index) : state.index < 0 ? [] : [state.index];
  const refs = isMulti ? shown.order : (channels[state.index]?.rows ?? []).map((row) => row.bundle ?? row.name);
  const rows = refs.map((ref) => ({ [typeof ref === "number" ? "bundle" : "name"]: ref, cells: new Map() }));
  const byRef = new Map(refs.map((ref, number) => [ref, number]).reverse());
  const places = new Map(indexes.map((index) => [index, channels[index].rows.map((row, number) =>
    isMulti ? byRef.get(row.bundle ?? row.name) : number)]));
  for (const [index, place] of places)
    channels[index].rows.forEach((row, number) => rows[place[number]].cells.set(index, row));
  const groups = state.view === "merged" || !isMulti ? [indexes] : indexes.map((index) => [index]);
  const board = { isMulti, isMerged: isMulti && state.view === "merged", indexes, rows, columns: [] };
  const titleWidth = groups.length < 2 ? 0 : Math.min(Math.max(MIN_TITLE_WIDTH, graph.clientWidth / 2), 16 + rows.reduce((most, row) => Math.max(most, boldWidth(titleOf(row)[0])), 0));
  let x = LEFT + titleWidth;
  for (const group of groups) {
    const column = makeColumn(group, places, rows.length, (row) => group.some((index) => rows[row].cells.has(index)));
    const hasArcs = column.edges.some((edge) => edge.lane === undefined);
    column.name = groups.length > 1 ? wrapName(channels[group[0]].name) : [];
    column.nameWidth = column.name.length * NAME_LINE + 6;
    const aside = Math.max(0, column.nameWidth / 2 - 12); // of the first lane, for names of several lines
    column.left = x;
    column.x = x + Math.max(aside, hasArcs ? (groups.length > 1 ? NARROW_ARCS_WIDTH : ARCS_WIDTH) : 0);
    column.width = Math.max(LANE_WIDTH + aside, Math.max(1, ...column.used) * LANE_WIDTH);
    x = column.x + column.width + (groups.length > 1 ? 10 : 0);
    board.columns.push(column);
  }
  board.titleWidth = titleWidth;
  board.labelX = (row) => (groups.length > 1 ? x : board.columns[0].x + board.columns[0].used[row] * LANE_WIDTH);
  return board;
}

// The lines of the name of a channel above its column, broken after punctuation if possible.
function wrapName(name) {
  const lines = [""];
  for (const part of name.match(/[^-._/]*[-._/]?/g)) {
    if (lines.at(-1) && boldWidth(lines.at(-1) + part) > MAX_NAME_LENGTH) lines.push("");
    for (const character of part) {
      if (boldWidth(lines.at(-1) + character) > MAX_NAME_LENGTH) lines.push("");
      lines[lines.length - 1] += character;
    }
  }
  return lines.length > MAX_NAME_LINES ? [...lines.slice(0, MAX_NAME_LINES - 1), `${lines[MAX_NAME_LINES - 1].slice(0, -1)}…`] : lines;
}

function makeColumn(indexes, places, count, isPresent) {
  const edges = new Map(), from = Array.from({ length: count }, () => []), to = from.map(() => []);
  for (const index of indexes) {
    for (const edge of channelEdges(current().channels[index].rows, places.get(index))) {
      const key = [edge.newer, edge.older, edge.type, edge.change, edge.kind, edge.isOld].join();
      if (!edges.has(key)) {
        edges.set(key, { ...edge, channels: [] });
        from[edge.newer].push(edges.get(key));
        to[edge.older].push(edges.get(key));
      }
      edges.get(key).channels.push(index);
    }
  }
  const isLaned = (edge) => edge.type === "replaces" && !edge.isOld;
  const laned = assignLanes(count, isPresent, (row) => from[row].filter(isLaned));
  return { indexes, edges: [...edges.values()], arcs: to.flatMap(visibleArcs), from, to, isPresent, ...laned };
}

// Of the bundles that skip a bundle, only the nearest has an arc, apart from cycles and changes.
function visibleArcs(edges, row) {
  const skips = edges.filter((edge) => edge.type === "skips" && !edge.isOld);
  const nearest = skips.reduce((best, edge) =>
    edge.newer < row && (best === undefined || best.newer > row || best.newer < edge.newer) ? edge : best ?? edge, undefined);
  const shown = new Set(edges.filter((edge) => edge.lane === undefined &&
    (edge.type === "replaces" || edge.kind === "cycle" || (edge.change && !edge.isWhole))));
  if (nearest) shown.add(nearest);
  return [...shown];
}

// The edges of a channel, with `kind` "cycle" or "missing" for problems.
function* channelEdges(rows, place) {
  const replaced = new Set(rows.filter((row) => !isRemoved(row)).map((row) => row.replaces));
  for (const [number, row] of rows.entries()) {
    const added = new Set(row.added ?? []);
    const isWhole = row.change === "added" || isRemoved(row);
    const edge = (type, older, isOld = false, isGone = isOld || isRemoved(row)) => ({
      newer: place[number], older: place[older], type, isOld, isWhole,
      change: isGone ? "removed" : row.change === "added" || added.has(older) ? "added" : "",
      kind: isGone ? "" : inCycle(row, rows[older]) ? "cycle" : type === "replaces" && isMissing(rows[older], replaced.has(older)) ? "missing" : "",
    });
    if (row.replaces !== undefined) yield edge("replaces", row.replaces);
    for (const older of row.skips ?? []) yield edge("skips", older);
    if (row.oldReplaces !== undefined) yield edge("replaces", row.oldReplaces, true);
    for (const older of row.oldSkips ?? []) yield edge("skips", older, true);
  }
}

// Whether an entry has no bundle, or a replaced bundle does not exist.
function isMissing(row, isReplaced) {
  if (isRemoved(row)) return isReplaced && bundleOf(row).change === "removed";
  return (row.name !== undefined || bundleOf(row).change === "removed") && (isEntry(row) || isReplaced);
}

const edgesFrom = (number) => state.board.columns.flatMap((column) => column.from[number]);
const edgesTo = (number) => state.board.columns.flatMap((column) => column.to[number]);
const isCurrent = (edge) => edge.change !== "removed";
const colorOf = (index) => `color-${index % COLORS}`;

// Changes of a bundle in the channels in view, after a comparison.
function changesOf(row) {
  const { changes = [], channels } = current(), { board } = state, texts = new Map();
  const names = new Map(board.indexes.map((index) => [channels[index].name, index]));
  for (const { bundle, channel, label } of changes) {
    if (bundle !== nameOf(row) || !label || (channel !== undefined && !names.has(channel))) continue;
    texts.set(label, [...(texts.get(label) ?? []), ...(channel === undefined ? [] : [names.get(channel)])]);
  }
  return [...texts].map(([text, indexes]) =>
    board.isMulti && indexes.length && indexes.length < board.indexes.length ? `${text} in ${channelNames(indexes)}` : text);
}

// The change of a row: of all channels in view, "changed" if they differ.
function changeOf(row) {
  const changes = new Set([...row.cells.values()].filter(isEntry).map(({ change = "" }) => change));
  return changes.size > 1 ? "changed" : [...changes][0] ?? "";
}
