// Parallel lanes of edges to older rows; a chain of edges stays in one lane.
const MAX_LANES = 24;

// Assigns a lane to each edge, and returns the lane of each row and the number of lanes in use there.
function assignLanes(count, isPresent, edgesFrom) {
  const lanes = [], used = [];
  let open = []; // the row to which each lane leads
  const find = (target) => {
    const number = open.indexOf(target);
    return number >= 0 ? number : -1;
  };
  const free = () => {
    const number = find(undefined);
    return number >= 0 ? number : Math.min(open.length, MAX_LANES - 1);
  };
  for (let row = 0; row < count; row += 1) {
    if (!isPresent(row)) {
      used.push(open.length);
      lanes.push(-1);
      continue;
    }
    const own = find(row) >= 0 ? find(row) : free();
    let width = Math.max(open.length, own + 1);
    open = Array.from({ length: width }, (_, lane) => (open[lane] === row ? undefined : open[lane]));
    edgesFrom(row).filter((edge) => edge.older > row).forEach((edge, number) => {
      edge.lane = number === 0 ? own : find(edge.older) >= 0 ? find(edge.older) : free();
      open[edge.lane] = edge.older;
      width = Math.max(width, edge.lane + 1);
    });
    while (open.length && open.at(-1) === undefined) open.pop();
    lanes.push(own);
    used.push(width);
  }
  return { lanes, used };
}
