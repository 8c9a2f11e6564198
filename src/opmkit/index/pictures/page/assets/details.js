// Details of the selected bundle.
function showDetails() {
  const details = byId("details"), { board, selected } = state, row = board.rows[selected];
  if (!row) {
    details.replaceChildren(element("p", {}, state.index < 0 ? "The package has no channels." : board.rows.length ? "The channel has no changes." : "The channel has no bundles."));
    return;
  }
  const bundle = bundleOf(row), entries = [...row.cells.values()].filter(isEntry), facts = element("dl");
  const fact = (name, ...values) => values.length && facts.append(element("dt", {}, name), element("dd", {}, ...values));
  for (const [, text] of state.labels.get(nameOf(row)) ?? []) fact("Problem", element("span", { class: "problem" }, text));
  for (const text of changesOf(row)) fact("Change", element("span", { class: `change ${changeOf(row)}` }, text));
  fact("Version", bundle.version || "unknown");
  if (bundle.deprecated) fact("Deprecated", element("span", { class: "deprecated" }, bundle.deprecated));
  if (bundle.image) fact("Image", ...imageOf(bundle.image));
  if (bundle.oldImage) fact("Image before", ...imageOf(bundle.oldImage));
  fact("Channels", channelsOf(row).map(({ name }) => name).join(", ") || "none");
  if (!entries.length) fact("", "Named by entries of this channel, but not an entry itself.");
  for (const range of new Set(entries.map((cell) => cell.range).filter(Boolean))) fact("Skip range", element("code", {}, range));
  const parts = [element("h2", {}, nameOf(row)), facts];
  const list = (title, links) => links.length && parts.push(element("h3", {}, `${title} (${links.length})`), linked(links));
  const from = edgesFrom(selected), to = edgesTo(selected);
  for (const [index, cell] of row.cells) parts.push(...updatesOf(index, cell));
  list("Replaces", linksOf(from, "older", "replaces"));
  list("Skips", linksOf(from, "older", "skips"));
  list("In its skip range", ranges((own, other) => inRange(own, other)));
  list("Replaced by", linksOf(to, "newer", "replaces"));
  list("Skipped by", linksOf(to, "newer", "skips"));
  list("In the skip range of", ranges((own, other) => isEntry(own) && inRange(other, own)));
  list("No longer replaces", linksOf(from, "older", "replaces", true));
  list("No longer skips", linksOf(from, "older", "skips", true));
  list("No longer replaced by", linksOf(to, "newer", "replaces", true));
  list("No longer skipped by", linksOf(to, "newer", "skips", true));
  if (bundle.related?.length) parts.push(element("h3", {}, `Related images (${bundle.related.length})`), element(
    "ul", {}, ...bundle.related.slice(0, MAX_ITEMS).map((index) => element("li", {}, ...related(current().images[index])))));
  details.replaceChildren(...parts);
}

// What OLM installs in turn after an installed bundle of a channel, and why it stops before the head.
function updatesOf(index, cell) {
  const { rows } = current().channels[index], way = [];
  for (let row = cell; row.next !== undefined && way.length <= rows.length; row = rows[row.next]) way.push(rows[row.next]);
  const { end } = way.at(-1) ?? cell;
  if (!way.length && !end) return [];
  const list = linked(way.map((step) => [state.board.rows.findIndex((row) => nameOf(row) === nameOf(step)), [index]]));
  if (end) list.append(element("li", { class: "problem" }, `OLM stops: ${end}`));
  const channel = state.board.isMulti ? ` in ${channelNames([index])}` : "";
  return [element("h3", {}, `Updates of a cluster that has it${channel} (${way.length})`), list];
}

const related = ([name, image]) => [...(name ? [`${name}: `] : []), ...imageOf(image)];
const channelsOf = (row) => current().channels.filter((channel) =>
  row.bundle !== undefined && channel.rows.some((other) => isEntry(other) && other.bundle === row.bundle && !isRemoved(other)));

// Rows at one end of edges, with the channels of the edges; an end that the columns share is one row.
function linksOf(edges, end, type, isGone = false) {
  const links = new Map();
  for (const edge of edges.filter((candidate) => candidate.type === type && isCurrent(candidate) !== isGone))
    links.set(edge[end], [...(links.get(edge[end]) ?? []), ...edge.channels]);
  return [...links].sort(([one], [other]) => one - other);
}

function ranges(test) {
  const { rows } = state.board, own = [...rows[state.selected].cells];
  return rows.flatMap((row, number) => {
    const indexes = own.filter(([index, cell]) => row.cells.has(index) && test(cell, row.cells.get(index))).map(([index]) => index);
    return indexes.length ? [[number, indexes]] : [];
  });
}

function imageOf(image) {
  const [name, digest] = image.split("@");
  if (!digest) return [element("code", {}, image), copyButton("image", image)];
  return [element("code", {}, name), copyButton("image", image), element("br"),
    element("code", {}, `@${digest}`), copyButton("digest", digest)];
}

function linked(links) {
  const list = element("ul"), { board } = state;
  for (const [number, indexes] of links.slice(0, MAX_ITEMS)) {
    const link = button(() => { selectRow(number); graph.focus(); }, {}, nameOf(board.rows[number]));
    list.append(element("li", {}, link, ...(board.isMulti ? [element("small", {}, ` in ${channelNames(indexes)}`)] : [])));
  }
  if (links.length > MAX_ITEMS) list.append(element("li", {}, `and ${links.length - MAX_ITEMS} more`));
  return list;
}
