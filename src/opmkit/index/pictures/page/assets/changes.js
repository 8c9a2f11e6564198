// The filter of a comparison: rows without changes are folded, so that each run of them takes one line of the graph.
// `board.lines` are the lines from top to bottom, each a row or a run of rows; `board.lineOf` has the line of each row.
function foldRows(board) {
  const kept = board.rows.map((row, number) => !state.only || Boolean(changeOf(row)) || changesOf(row).length > 0 ||
    [...edgesFrom(number), ...edgesTo(number)].some((edge) => edge.change));
  board.lines = [];
  board.shown = 0;
  board.lineOf = kept.map((isKept, number) => {
    if (isKept) board.shown += 1;
    if (isKept || number === 0 || kept[number - 1]) board.lines.push({ row: isKept ? number : -1, start: number, count: 0, position: board.shown });
    board.lines.at(-1).count += 1;
    return board.lines.length - 1;
  });
}

const lineAt = (number) => state.board.lineOf[number] ?? -1;
const isFolded = (number) => number >= 0 && state.board.lines[lineAt(number)].row !== number;

// Returns the row that is shown and nearest to a line, -1 if all are folded.
function rowNear(line, step = 1) {
  const { lines } = state.board, end = lines.length - 1, from = Math.min(end, Math.max(0, line));
  for (const direction of [step, -step])
    for (let index = from; index >= 0 && index <= end; index += direction) if (lines[index].row >= 0) return lines[index].row;
  return -1;
}

function setOnly(only) {
  state.only = only && catalog.compared !== undefined;
  byId("only").checked = state.only;
  const { board, selected } = state;
  foldRows(board);
  resize();
  selectRow(isFolded(selected) || selected < 0 ? rowNear(lineAt(selected)) : selected);
  announce(state.only ? `${plural(board.shown, "bundle")} with changes` : "All bundles");
}

function drawFold({ start, count }) {
  const text = `${count} without changes`, at = y(start);
  return svgElement("g", { class: "fold", "aria-hidden": "true" },
    svgElement("rect", { class: "band", x: 0, y: at - ROW_HEIGHT / 2, width: 20000, height: ROW_HEIGHT }),
    svgElement("text", { class: "label", x: state.board.labelX(start), y: at }, svgElement("tspan", { class: "muted" }, text)));
}
