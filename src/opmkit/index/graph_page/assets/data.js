// Data of the catalog, and the state of the page.
const MAX_ITEMS = 200;
const readData = (id) => JSON.parse(byId(id).textContent);
const catalog = readData("catalog");
const packages = new Map();
const VIEWS = ["channel", "columns", "merged"];

// `index` is the current channel, `selected` a row of the board, `labels` the problems by name of a bundle.
const state = { number: -1, index: -1, view: "channel", board: undefined, selected: -1, zoom: 1, labels: new Map(), only: false };

// Packages are parsed when they are shown for the first time.
function loadPackage(number) {
  if (!packages.has(number)) packages.set(number, readData(`package-${number}`));
  return packages.get(number);
}

const current = () => loadPackage(state.number);
const bundleOf = (row) => current().bundles[row.bundle] ?? {};
const nameOf = (row) => row.name ?? bundleOf(row).name;
const isEntry = (row) => row.rank !== undefined;
const isRemoved = (row) => row.change === "removed";
const inCycle = (row, other) => row.cycle !== undefined && row.cycle === other.cycle;
const inRange = (row, other) => isEntry(other) && other !== row && isRemoved(row) === isRemoved(other) &&
  (row.within ?? []).some(([start, end]) => start <= other.rank && other.rank < end);

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const joined = (texts, most = 4) => texts.length > most + 1
  ? `${texts.slice(0, most).join(", ")} and ${texts.length - most} more`
  : [...texts.slice(0, -2), texts.slice(-2).join(" and ")].join(", ");
const channelNames = (indexes) => joined(indexes.map((index) => current().channels[index].name));

// The version, and the name unless it only consists of the package and the version; without a version, the name.
function titleOf(row) {
  const { version } = bundleOf(row), { name } = current();
  if (!version) return [nameOf(row)];
  return [`${name}.v${version}`, `${name}.${version}`].includes(nameOf(row)) ? [version] : [version, nameOf(row)];
}

// Problems of the channels in view by the name of a bundle.
function labelsOf(indexes) {
  const labels = new Map(), { problems = [], channels } = current();
  const names = new Set(indexes.map((index) => channels[index].name));
  for (const { names: bundles = [], label, severity, channel } of problems) {
    if (channel !== undefined && !names.has(channel)) continue;
    const text = channel !== undefined && names.size > 1 ? `${channel}: ${label}` : label;
    for (const name of bundles) labels.set(name, [...(labels.get(name) ?? []), [severity, text]]);
  }
  return labels;
}
