// The graph: the rows in view and the edges that cross them.
const ROW_HEIGHT = 26, OVERSCAN = 12, MIN_REMARKS = 160, MAX_REMARKS = 480;

const yOfLine = (line) => line * ROW_HEIGHT + ROW_HEIGHT / 2 + 4;
const y = (number) => yOfLine(lineAt(number));
const laneX = (column, lane) => column.x + lane * LANE_WIDTH;
const rowX = (column, number) => laneX(column, column.lanes[number]);

function resize() {
  height.style.height = `${state.board.lines.length * ROW_HEIGHT * state.zoom + 8}px`;
  byId("reset").textContent = `${Math.round(state.zoom * 100)} %`;
  showColumns();
}

let repaintPending = false;
function repaint() {
  if (repaintPending) return;
  repaintPending = true;
  requestAnimationFrame(() => { repaintPending = false; paint(); });
}

function paint() {
  const { board, zoom, selected } = state;
  if (!board) return;
  const size = ROW_HEIGHT * zoom, count = board.lines.length;
  const first = Math.max(0, Math.floor(graph.scrollTop / size) - OVERSCAN);
  const last = Math.min(count, Math.ceil((graph.scrollTop + graph.clientHeight) / size) + OVERSCAN);
  const top = yOfLine(first) - ROW_HEIGHT, bottom = Math.min(yOfLine(last) + ROW_HEIGHT, count * ROW_HEIGHT + 8);
  const lines = svgElement("g", { "aria-hidden": "true" }), rows = svgElement("g", { role: "presentation" });
  for (const column of board.columns) drawEdges(lines, column, first, last);
  for (const line of board.lines.slice(first, last)) rows.append(line.row < 0 ? drawFold(line) : drawRow(line.row, board.shown));
  const arrow = svgElement("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 12, refY: 4, markerWidth: 8, markerHeight: 8,
    markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, svgElement("path", { class: "arrow", d: "M0 0L8 4L0 8Z" }));
  const image = svgElement("svg", { role: "presentation" }, arrow, ...drawCurrentColumn(top, bottom), lines, rows);
  image.setAttribute("height", (bottom - top) * zoom);
  image.setAttribute("width", Math.max(graph.clientWidth, (board.width ?? 0) * zoom)); // until it is measured, to not scroll back
  image.style.top = `${top * zoom}px`;
  height.replaceChildren(image);
  if (board.isMulti) for (const label of rows.querySelectorAll("text.label")) shorten(label);
  const ends = [...rows.querySelectorAll("text.label")].map((label) => label.x.baseVal[0].value + label.getComputedTextLength());
  board.width = Math.max(board.width ?? 0, ...ends.map((end) => end + LEFT));
  const wide = Math.max(graph.clientWidth, board.width * zoom);
  image.setAttribute("width", wide);
  image.setAttribute("viewBox", `0 ${top} ${wide / zoom} ${bottom - top}`);
  byId("columns").scrollLeft = graph.scrollLeft;
  if (selected >= 0) graph.setAttribute("aria-activedescendant", `row-${selected}`);
  else graph.removeAttribute("aria-activedescendant");
}

// The width of the versions next to columns, which stay in view unless they leave too little room for the columns.
const titlesEnd = () => LEFT + state.board.titleWidth - 12;
const fixedWidth = () => (titlesEnd() * state.zoom <= graph.clientWidth * 0.6 ? titlesEnd() : 0);

// Cuts the middle of a title, since names of bundles end with the version.
function fitTitle(title) {
  const room = state.board.titleWidth - 16, kept = Math.floor((title.length * room) / boldWidth(title)) - 2, end = Math.ceil(kept * 0.6);
  return boldWidth(title) <= room + 1 ? title : `${title.slice(0, kept - end)}…${title.slice(-end)}`;
}

// Cuts remarks that do not fit next to the columns; the details and the tooltip of the row have all of them. Remarks that
// have too little room without scrolling get more.
function shorten(label) {
  const start = label.x.baseVal[0].value, room = graph.clientWidth / state.zoom - LEFT - start;
  const limit = start + (room < MIN_REMARKS ? MAX_REMARKS : room) - 4;
  for (const part of [...label.children].reverse()) {
    const excess = start + label.getComputedTextLength() - limit, text = part.textContent;
    if (excess <= 0) return;
    const length = Math.floor(text.length * (1 - (excess + 14) / part.getComputedTextLength()));
    if (length > 2) part.textContent = `${text.slice(0, length).trimEnd()}…`;
    else part.remove();
  }
}

const currentColumn = () => state.board.columns.length < 2 ? undefined : state.board.columns.find(({ indexes }) => indexes.includes(state.index));
const endOf = (column) => column.x + column.width - 6;

function drawCurrentColumn(top, bottom) {
  const column = currentColumn();
  return !column ? [] : [svgElement("rect", {
    class: "current", x: column.left - 12, y: top, width: endOf(column) - column.left + 12, height: Math.max(0, bottom - top) })];
}

function scrollToColumn() {
  const column = currentColumn(), { zoom } = state;
  if (!column) return;
  const start = (column.left - 12 - fixedWidth()) * zoom, end = endOf(column) * zoom - graph.clientWidth;
  graph.scrollLeft = Math.min(start, Math.max(end, graph.scrollLeft));
}

function drawEdges(lines, column, first, last) {
  const { selected } = state, crosses = ({ newer, older }) => {
    const ends = [lineAt(newer), lineAt(older)];
    return Math.min(...ends) < last && Math.max(...ends) >= first && (newer === older ? !isFolded(newer) : ends[0] !== ends[1]);
  };
  for (const edge of column.edges) if (edge.lane !== undefined && crosses(edge)) drawEdge(lines, column, edge, lanePath(column, edge));
  const arcs = new Set(column.arcs);
  for (const edge of column.from[selected] ?? []) if (edge.lane === undefined) arcs.add(edge);
  for (const edge of arcs) if (crosses(edge)) drawEdge(lines, column, edge, arcPath(column, edge));
}

function drawEdge(lines, column, edge, path) {
  const { board, selected } = state, kinds = [edge.type, edge.kind, edge.change];
  if (edge.newer === selected || (edge.type === "replaces" && edge.older === selected)) kinds.push("selected");
  const colored = board.isMulti && !edge.kind && edge.change !== "removed";
  const strokes = !colored ? [""] : edge.channels.length > MAX_STROKES ? ["several"] : edge.channels.map(colorOf);
  const group = svgElement("g", { class: "edge" });
  if (board.isMulti) group.append(svgElement("title", {}, `${titleAt(edge.newer)} ${edge.type} ${titleAt(edge.older)} in ${channelNames(edge.channels)}`));
  strokes.forEach((stroke, number) => group.append(svgElement("path", {
    class: [...kinds, stroke].filter(Boolean).join(" "), d: path((number - (strokes.length - 1) / 2) * 3) })));
  if (edge.change) group.append(svgElement("text", { class: `sign ${edge.change}`, ...signPlace(column, edge) }, SIGNS[edge.change]));
  lines.append(group);
}

// Returns functions of the distance from the middle of the lane.
function lanePath(column, { newer, older, lane }) {
  const [fromX, fromY, viaX, toX, toY] = [rowX(column, newer), y(newer), laneX(column, lane), rowX(column, older), y(older)];
  const leave = fromX === viaX ? "" : `C${fromX} ${fromY + ROW_HEIGHT} ${viaX} ${fromY} ${viaX} ${fromY + ROW_HEIGHT}`;
  if (leave && lineAt(older) === lineAt(newer) + 1)
    return (shift) => `M${fromX + shift} ${fromY}C${fromX + shift} ${toY} ${toX + shift} ${fromY} ${toX + shift} ${toY}`;
  const moved = (shift) => (leave ? `M${fromX + shift} ${fromY}C${fromX + shift} ${fromY + ROW_HEIGHT} ${viaX + shift} ${fromY} ${viaX + shift} ${fromY + ROW_HEIGHT}` : `M${viaX + shift} ${fromY}`);
  if (viaX === toX) return (shift) => `${moved(shift)}V${toY}`;
  const turn = toY - ROW_HEIGHT;
  return (shift) => `${moved(shift)}V${turn}C${viaX + shift} ${toY} ${toX + shift} ${turn} ${toX + shift} ${toY}`;
}

// An arc to the left of the lanes, from the older bundle; for a bundle that updates itself, a loop.
function arcPath(column, { newer, older, type }) {
  if (newer === older) return (shift) => `M${rowX(column, older) + shift} ${y(older)}c-24 -18 -24 18 0 0`;
  const left = arcLeft(column, newer, older), [from, to] = type === "replaces" ? [newer, older] : [older, newer];
  return (shift) => `M${rowX(column, from)} ${y(from)}C${left + shift} ${y(from)} ${left + shift} ${y(to)} ${rowX(column, to)} ${y(to)}`;
}

const arcLeft = (column, newer, older) =>
  Math.max(column.left - 18, column.x - 14 - 6 * Math.abs(newer - older));

function signPlace(column, { newer, older, lane }) {
  if (lane !== undefined) return { x: laneX(column, lane) + 4, y: y(newer) + ROW_HEIGHT / 2 };
  const x = (arcLeft(column, newer, older) * 3 + rowX(column, newer)) / 4;
  return { x, y: (y(newer) + y(older)) / 2 };
}

// The names of the columns, which scroll with the graph and are not larger than its text.
function showColumns() {
  const { board, zoom, index } = state, { channels } = current(), box = byId("columns"), scale = Math.min(1, zoom);
  box.hidden = board.columns.length < 2;
  box.style.height = `${scale * (12 + 1.06 * Math.max(0, ...board.columns.flatMap((column) => column.name.map(boldWidth))))}px`;
  box.style.fontSize = `${scale * 100}%`;
  box.style.clipPath = `inset(0 0 0 ${fixedWidth() * zoom}px)`;
  box.style.scrollPaddingLeft = `${fixedWidth() * zoom}px`;
  const names = box.hidden ? [] : board.columns.map((column) => {
    const [number] = column.indexes, name = channels[number].name + remarksOfChannel(current(), channels[number]);
    const isBroken = problemsIn(channels[number]).length > 0;
    const node = button(() => setChannel(number), { title: name, class: `${colorOf(number)} ${isBroken ? "problem" : ""}`,
      "aria-pressed": String(number === index), "aria-label": `Channel ${name}` }, ...column.name.map((line) => element("span", {}, line)));
    node.style.left = `${column.x * zoom + 1 - (column.nameWidth * scale) / 2}px`;
    node.style.width = `${column.nameWidth * scale}px`;
    return node;
  });
  if (names.length) names.push(element("span"));
  if (names.length) names.at(-1).style.left = `${board.labelX(0) * zoom + graph.clientWidth}px`;
  box.replaceChildren(...names);
}
