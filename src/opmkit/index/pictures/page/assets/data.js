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

// The marks of a problem are the bundles that have it, each in some channels, or in all of them.
const problemsIn = (channel) => (current().problems ?? []).filter(({ marks }) => marks.some(({ channels }) => channels?.includes(channel.name)));
const marksIn = ({ marks }, channel) => marks.filter(({ channels }) => channels?.includes(channel.name) ?? true);
const hasMark = (problem, channel, name) => marksIn(problem, channel).some(({ names }) => names?.includes(name));

// Problems of the channels in view by the name of a bundle; those with the same label are one.
function labelsOf(indexes) {
  const labels = new Map(), { problems = [], channels } = current();
  for (const { severity, marks } of problems) for (const { names = [], label, channels: marked } of marks) {
    const found = marked ? indexes.filter((index) => marked.includes(channels[index].name)) : indexes;
    if (!found.length) continue;
    for (const name of names) {
      if (!labels.has(name)) labels.set(name, new Map());
      const known = labels.get(name).get(label) ?? { severity, indexes: new Set() };
      labels.get(name).set(label, { ...known, indexes: new Set([...known.indexes, ...found]) });
    }
  }
  const text = (label, found) => found.size < indexes.length ? `${channelNames([...found].sort((one, other) => one - other))}: ${label}` : label;
  return new Map([...labels].map(([name, found]) => [name, [...found].map(([label, known]) => [known.severity, text(label, known.indexes)])]));
}
