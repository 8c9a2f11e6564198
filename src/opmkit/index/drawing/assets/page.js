"use strict";
// Draws one channel at a time, and only the rows in view. Catalog texts are only ever inserted as text nodes and attributes.
(() => {
  const ROW_HEIGHT = 26, LANE_WIDTH = 18, LEFT = 24, ARCS_WIDTH = 60, OVERSCAN = 12, MAX_ITEMS = 200;
  const byId = (id) => document.getElementById(id);
  const readData = (id) => JSON.parse(byId(id).textContent);
  const catalog = readData("catalog");
  const graph = byId("graph"), height = byId("height"), search = byId("search"), results = byId("results");
  const packages = new Map();
  const state = { number: -1, channel: null, selected: -1, zoom: 1, labels: new Map() };

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function svgElement(name, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // Packages are parsed when they are shown for the first time.
  function loadPackage(number) {
    if (!packages.has(number)) {
      const loaded = readData(`package-${number}`);
      for (const channel of loaded.channels) addReverseEdges(channel);
      packages.set(number, loaded);
    }
    return packages.get(number);
  }

  function addReverseEdges(channel) {
    channel.replacedBy = channel.rows.map(() => []);
    channel.skippedBy = channel.rows.map(() => []);
    channel.rows.forEach((row, number) => {
      if (row.replaces !== undefined) channel.replacedBy[row.replaces].push(number);
      for (const skipped of row.skips ?? []) channel.skippedBy[skipped].push(number);
    });
    const hasArcs = channel.rows.some((row, number) => row.skips?.length || row.replaces <= number);
    channel.left = LEFT + (hasArcs ? ARCS_WIDTH : 0);
  }

  const inRange = (row, other) => other.rank !== undefined && other !== row &&
    (row.within ?? []).some(([start, end]) => start <= other.rank && other.rank < end);
  const bundleOf = (row) => loadPackage(state.number).bundles[row.bundle] ?? {};
  const nameOf = (row) => row.name ?? bundleOf(row).name;
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const inCycle = (row, other) => row.cycle !== undefined && row.cycle === other.cycle;
  const problemsOf = (channel) => (loadPackage(state.number).problems ?? []).filter((problem) =>
    problem.channel === undefined || problem.channel === channel.name);

  // ---- selection of a package, a channel and a bundle

  function showPackage(number, channelName, bundleName) {
    state.number = number;
    const shown = loadPackage(number);
    for (const button of byId("packages").querySelectorAll("button")) {
      const isCurrent = Number(button.dataset.number) === number;
      button.setAttribute("aria-current", String(isCurrent));
      button.tabIndex = isCurrent ? 0 : -1; // one stop of the Tab key, arrows move within
      if (isCurrent) scrollWithin(button.closest("nav"), button);
    }
    byId("name").textContent = shown.name;
    byId("description").textContent = shown.description ?? "";
    byId("deprecation").textContent = shown.deprecated ? `Deprecated: ${shown.deprecated}` : "";
    showProblems(shown);
    byId("channel").replaceChildren(...shown.channels.map((channel, index) => element(
      "option", { value: index },
      channel.name + remarksOfChannel(shown, channel))));
    const channelNamed = (name) => shown.channels.findIndex((channel) => channel.name === name);
    const channelContaining = (name) => shown.channels.findIndex((channel) => channel.rows.some((row) => row.rank !== undefined &&
      shown.bundles[row.bundle]?.name === name));
    let index = channelNamed(channelName ?? shown.default);
    if (bundleName !== undefined && channelName === undefined && !hasBundle(shown, index, bundleName)) index = channelContaining(bundleName);
    showChannel(Math.max(index, 0), bundleName);
  }

  // Unlike scrollIntoView, does not scroll the page on small screens.
  function scrollWithin(list, item) {
    const outer = list.getBoundingClientRect(), inner = item.getBoundingClientRect();
    if (inner.top < outer.top) list.scrollTop += inner.top - outer.top - 8;
    else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 8;
  }

  function hasBundle(shown, index, name) {
    return shown.channels[index]?.rows.some((row) => shown.bundles[row.bundle]?.name === name) ?? false;
  }

  function remarksOfChannel(shown, channel) {
    const count = (shown.problems ?? []).filter((problem) => problem.channel === channel.name).length;
    const remarks = [channel.name === shown.default && "default", channel.deprecated && "deprecated",
      count && plural(count, "problem")].filter(Boolean);
    return remarks.length ? ` (${remarks.join(", ")})` : "";
  }

  function showProblems({ problems = [], errors = 0, warnings = 0, channels }) {
    const box = byId("problems"), omitted = errors + warnings - problems.length;
    box.hidden = problems.length === 0;
    box.open = true;
    box.querySelector("summary").textContent = [
      ...(errors ? [plural(errors, "error")] : []), ...(warnings ? [plural(warnings, "warning")] : [])].join(" and ");
    const lines = problems.map((problem) => element("li", { class: problem.severity }, problemText(problem, channels)));
    if (omitted) lines.push(element("li", {}, `and ${omitted} more`));
    box.querySelector("ul").replaceChildren(...lines);
  }

  // A problem of a channel or a bundle is a button that selects it.
  function problemText(problem, channels) {
    const rowsOf = (channel) => channel.rows.findIndex((row) => problem.names?.includes(nameOf(row)));
    const index = channels.findIndex((channel) =>
      problem.channel === undefined ? rowsOf(channel) >= 0 : channel.name === problem.channel);
    if (index < 0) return problem.text;
    const button = element("button", { type: "button" }, problem.text);
    button.addEventListener("click", () => {
      const shown = problem.channel === undefined && rowsOf(state.channel) >= 0 ? channels.indexOf(state.channel) : index;
      const row = channels[shown].rows[rowsOf(channels[shown])];
      showChannel(shown, row && nameOf(row));
      graph.focus();
    });
    return button;
  }

  function showChannel(index, bundleName) {
    const shown = loadPackage(state.number);
    const channel = shown.channels[index];
    state.channel = channel ?? { name: "", rows: [], left: LEFT, replacedBy: [], skippedBy: [] };
    byId("channel").value = String(index);
    byId("channel-deprecation").textContent = channel?.deprecated ? `Channel deprecated: ${channel.deprecated}` : "";
    byId("count").textContent = countRows(state.channel.rows);
    state.labels = new Map();
    for (const { names = [], label, severity } of channel ? problemsOf(channel) : [])
      for (const name of names) state.labels.set(name, [...(state.labels.get(name) ?? []), [severity, label]]);
    let selected = bundleName === undefined ? 0 : state.channel.rows.findIndex((row) => nameOf(row) === bundleName);
    if (selected < 0 || selected >= state.channel.rows.length) selected = state.channel.rows.length ? 0 : -1;
    graph.scrollTop = 0;
    resize();
    selectRow(selected);
  }

  function countRows(rows) {
    const entries = rows.filter((row) => row.rank !== undefined && row.name === undefined).length;
    const missing = rows.filter((row) => row.name !== undefined).length, outside = rows.length - entries - missing;
    return [plural(entries, "bundle"), ...(missing ? [`${missing} missing`] : []),
      ...(outside ? [`${outside} not in the channel`] : [])].join(", ");
  }

  function selectRow(number) {
    state.selected = number;
    if (number >= 0) scrollToRow(number);
    paint();
    showLegend();
    showDetails();
    const parts = [loadPackage(state.number).name, state.channel.name];
    if (number >= 0) parts.push(nameOf(state.channel.rows[number]));
    history.replaceState(null, "", `#${parts.map(encodeURIComponent).join("/")}`);
  }

  function scrollToRow(number) {
    const size = ROW_HEIGHT * state.zoom, top = number * size;
    if (top < graph.scrollTop) graph.scrollTop = top - size;
    else if (top + size > graph.scrollTop + graph.clientHeight) graph.scrollTop = top + 2 * size + 8 - graph.clientHeight;
  }

  // ---- the graph: the rows in view and the edges that cross them

  function resize() {
    height.style.height = `${state.channel.rows.length * ROW_HEIGHT * state.zoom + 8}px`;
    byId("reset").textContent = `${Math.round(state.zoom * 100)} %`;
  }

  let repaintPending = false;
  function repaint() {
    if (repaintPending) return;
    repaintPending = true;
    requestAnimationFrame(() => { repaintPending = false; paint(); });
  }

  const x = (row) => state.channel.left + row.lane * LANE_WIDTH;
  const y = (number) => number * ROW_HEIGHT + ROW_HEIGHT / 2 + 4;

  function paint() {
    const { channel, zoom } = state;
    if (!channel) return;
    const size = ROW_HEIGHT * zoom, count = channel.rows.length;
    const first = Math.max(0, Math.floor(graph.scrollTop / size) - OVERSCAN);
    const last = Math.min(count, Math.ceil((graph.scrollTop + graph.clientHeight) / size) + OVERSCAN);
    const top = y(first) - ROW_HEIGHT, bottom = Math.min(y(last) + ROW_HEIGHT, count * ROW_HEIGHT + 8);
    const lines = svgElement("g", { "aria-hidden": "true" }), rows = svgElement("g", { role: "presentation" });
    channel.rows.forEach((row, number) => drawEdges(lines, row, number, first, last));
    for (let number = first; number < last; number += 1) rows.append(drawRow(channel.rows[number], number, count));
    const arrow = svgElement("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 12, refY: 4, markerWidth: 8, markerHeight: 8,
      markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, svgElement("path", { class: "arrow", d: "M0 0L8 4L0 8Z" }));
    const image = svgElement("svg", { role: "presentation" }, arrow, lines, rows);
    image.setAttribute("height", (bottom - top) * zoom);
    image.style.top = `${top * zoom}px`;
    height.replaceChildren(image);
    const ends = [...rows.querySelectorAll("text")].map((label) => label.x.baseVal[0].value + label.getComputedTextLength());
    channel.width = Math.max(channel.width ?? 0, ...ends.map((end) => end + LEFT));
    const wide = Math.max(graph.clientWidth, channel.width * zoom);
    image.setAttribute("width", wide);
    image.setAttribute("viewBox", `0 ${top} ${wide / zoom} ${bottom - top}`);
    if (state.selected >= 0) graph.setAttribute("aria-activedescendant", `row-${state.selected}`);
    else graph.removeAttribute("aria-activedescendant");
  }

  function drawEdges(lines, row, number, first, last) {
    const { channel, selected } = state;
    const crosses = (other) => Math.min(number, other) < last && Math.max(number, other) >= first;
    if (row.replaces !== undefined && crosses(row.replaces)) {
      const older = channel.rows[row.replaces], kinds = ["replaces"];
      if (number === selected || row.replaces === selected) kinds.push("selected");
      if (inCycle(row, older)) kinds.push("cycle");
      else if (isMissing(row.replaces)) kinds.push("missing");
      lines.append(svgElement("path", { class: kinds.join(" "), d: replacesPath(row, number, older, row.replaces) }));
    }
    const skippers = channel.skippedBy[number];
    const nearest = skippers.findLast((skipper) => skipper < number) ?? skippers[0];
    const cyclic = skippers.filter((skipper) => inCycle(row, channel.rows[skipper]));
    for (const skipper of new Set([...cyclic, ...(nearest === undefined ? [] : [nearest])])) {
      if (skipper === selected || !crosses(skipper)) continue;
      const kind = cyclic.includes(skipper) ? "skips cycle" : "skips";
      lines.append(svgElement("path", { class: kind, d: skipsPath(row, number, channel.rows[skipper], skipper) }));
    }
    if (selected >= 0 && number >= first && number < last && skippers.includes(selected))
      lines.append(svgElement("path", { class: cyclic.includes(selected) ? "skips selected cycle" : "skips selected", d: skipsPath(row, number, channel.rows[selected], selected) }));
  }

  function replacesPath(row, number, older, other) {
    const [fromX, fromY, toX, toY] = [x(row), y(number), x(older), y(other)];
    if (other <= number) return skipsPath(row, number, older, other);
    if (fromX === toX) return `M${fromX} ${fromY}V${toY}`;
    const turn = toY - ROW_HEIGHT;
    return `M${fromX} ${fromY}V${turn}C${fromX} ${toY} ${toX} ${turn} ${toX} ${toY}`;
  }

  function isMissing(number) {
    const { channel } = state, row = channel.rows[number];
    return row.name !== undefined && (row.rank !== undefined || channel.replacedBy[number].length > 0);
  }

  // An arc to the left of the lanes; for a bundle that updates itself, a loop.
  function skipsPath(row, number, skipper, other) {
    if (number === other) return `M${x(row)} ${y(number)}c-24 -18 -24 18 0 0`;
    const left = Math.max(6, state.channel.left - 14 - 6 * Math.abs(number - other));
    return `M${x(row)} ${y(number)}C${left} ${y(number)} ${left} ${y(other)} ${x(skipper)} ${y(other)}`;
  }

  function drawRow(row, number, count) {
    const bundle = bundleOf(row), { channel, selected } = state, skippers = channel.skippedBy[number];
    const kinds = ["dot"];
    if (row.rank === undefined) kinds.push("outside");
    else if (skippers.length) kinds.push("skipped");
    if (bundle.deprecated) kinds.push("deprecated");
    const problem = isMissing(number) ? "error" : state.labels.get(nameOf(row))?.[0][0];
    if (problem) kinds.push("problem");
    const [title, full] = titleOf(row, bundle), shownRemarks = remarks(row, number, bundle);
    const label = svgElement("text", { x: channel.left + row.lanes * LANE_WIDTH, y: y(number) },
      svgElement("tspan", { class: "title" }, title));
    if (full) shownRemarks.unshift(["muted", full]);
    for (const [kind, text] of shownRemarks) label.append(svgElement("tspan", { class: kind, dx: 8 }, text));
    const node = svgElement("g", {
      class: "row", role: "option", id: `row-${number}`, "data-number": number, "aria-selected": String(number === selected),
      "aria-posinset": number + 1, "aria-setsize": count, 
      "aria-label": [title, ...shownRemarks.map(([, text]) => text), ...spokenEdges(row)].join(", "),
    }, svgElement("rect", { class: "band", x: 0, y: y(number) - ROW_HEIGHT / 2, width: 20000, height: ROW_HEIGHT }));
    node.append(svgElement("circle", { class: kinds.join(" "), cx: x(row), cy: y(number), r: 5 }));
    if (selected >= 0 && inRange(channel.rows[selected], row))
      node.append(svgElement("circle", { class: "ring", cx: x(row), cy: y(number), r: 9 }));
    node.append(label);
    return node;
  }

  // The version, and the name unless it only consists of the package and the version; without a version, the name.
  function titleOf(row, { version }) {
    if (!version) return [nameOf(row)];
    const { name } = loadPackage(state.number);
    return [`${name}.v${version}`, `${name}.${version}`].includes(nameOf(row)) ? [version] : [version, nameOf(row)];
  }

  // Edges for screen readers.
  function spokenEdges(row) {
    const { rows } = state.channel, titleAt = (number) => titleOf(rows[number], bundleOf(rows[number]))[0];
    return [...(row.replaces === undefined ? [] : [`replaces ${titleAt(row.replaces)}`]),
      ...(row.skips?.length ? [`skips ${row.skips.length > 3 ? row.skips.length : row.skips.map(titleAt).join(" and ")}`] : [])];
  }

  function remarks(row, number, bundle) {
    const { channel } = state, result = [];
    const shown = loadPackage(state.number), first = channel.replacedBy[number].length + channel.skippedBy[number].length === 0;
    const labels = state.labels.get(nameOf(row)) ?? [];
    for (const [, text] of labels) result.push(["problem", text]);
    if (labels.length && (first || row.rank === undefined)) return result;
    if (row.rank === undefined) result.push(["muted", "not in this channel"]);
    else if (first) result.push(["muted", channel.name === shown.default ? "head of the default channel" : "head"]);
    if (bundle.deprecated) result.push(["warning", "deprecated"]);
    if (channel.skippedBy[number].length) result.push(["muted", "skipped"]);
    if (row.range) result.push(["muted", `skip range ${row.range}`]);
    return result;
  }

  // Only what is in the graph.
  function showLegend() {
    const { channel, selected, labels } = state, { rows, skippedBy } = channel, isEntry = (row) => row.rank !== undefined;
    const hasEdge = (test) => rows.some((row) => row.replaces !== undefined && test(row, rows[row.replaces], row.replaces));
    const present = {
      bundle: rows.some((row, number) => isEntry(row) && !skippedBy[number].length),
      skipped: rows.some((row, number) => isEntry(row) && skippedBy[number].length),
      deprecated: rows.some((row) => bundleOf(row).deprecated),
      outside: rows.some((row) => !isEntry(row)),
      replaces: hasEdge((row, older, number) => !inCycle(row, older) && !isMissing(number)),
      skips: rows.some((row) => row.skips?.length),
      problem: rows.some((row) => labels.has(nameOf(row))),
      cycle: rows.some((row) => row.cycle !== undefined),
      missing: hasEdge((row, older, number) => isMissing(number)),
      "in-range": selected >= 0 && rows.some((row) => inRange(rows[selected], row)),
    };
    for (const item of document.querySelectorAll(".legend [data-kind]")) item.hidden = !present[item.dataset.kind];
  }

  // ---- details of the selected bundle

  function showDetails() {
    const details = byId("details"), { channel, selected } = state;
    const row = channel.rows[selected];
    if (!row) {
      details.replaceChildren(element("p", {}, "The channel has no bundles."));
      return;
    }
    const bundle = bundleOf(row), shown = loadPackage(state.number);
    const facts = element("dl");
    const fact = (name, ...values) => values.length && facts.append(element("dt", {}, name), element("dd", {}, ...values));
    for (const [, text] of state.labels.get(nameOf(row)) ?? []) fact("Problem", element("span", { class: "problem" }, text));
    fact("Version", bundle.version || "unknown");
    if (bundle.deprecated) fact("Deprecated", element("span", { class: "deprecated" }, bundle.deprecated));
    if (bundle.image) fact("Image", ...imageOf(bundle.image));
    fact("Channels", shown.channels.filter((candidate) => candidate.rows.some((other) => other.rank !== undefined &&
      other.bundle === row.bundle && other.name === undefined)).map((candidate) => candidate.name).join(", ") || "none");
    if (row.rank === undefined) fact("", "Named by entries of this channel, but not an entry itself.");
    if (row.range) fact("Skip range", element("code", {}, row.range));
    const parts = [element("h2", {}, nameOf(row)), facts];
    const list = (title, numbers) => numbers.length && parts.push(element("h3", {}, `${title} (${numbers.length})`), linked(numbers));
    list("Replaces", row.replaces === undefined ? [] : [row.replaces]);
    list("Skips", row.skips ?? []);
    list("In its skip range", row.within ? indexes((other) => inRange(row, other)) : []);
    list("Replaced by", channel.replacedBy[selected]);
    list("Skipped by", channel.skippedBy[selected]);
    list("In the skip range of", row.rank === undefined ? [] : indexes((other) => inRange(other, row)));
    if (bundle.related?.length) parts.push(element("h3", {}, `Related images (${bundle.related.length})`), element(
      "ul", {}, ...bundle.related.slice(0, MAX_ITEMS).map((index) => element("li", {}, ...related(shown.images[index])))));
    details.replaceChildren(...parts);
  }

  const indexes = (test) => state.channel.rows.flatMap((row, number) => (test(row) ? [number] : []));
  const related = ([name, image]) => [...(name ? [`${name}: `] : []), ...imageOf(image)];

  function imageOf(image) {
    const [name, digest] = image.split("@");
    if (!digest) return [element("code", {}, image), copyButton("image", image)];
    return [element("code", {}, name), copyButton("image", image), element("br"),
      element("code", {}, `@${digest}`), copyButton("digest", digest)];
  }

  function copyButton(noun, text) {
    const button = element("button", { type: "button", class: "copy", title: `Copy the ${noun}`, "aria-label": `Copy the ${noun} ${text}` }, "copy");
    button.addEventListener("click", async () => {
      const copied = await copy(text);
      button.textContent = copied ? "copied" : "failed";
      byId("status").textContent = copied ? `Copied ${text}` : "The browser does not permit copying.";
    });
    return button;
  }

  // Pages that are not served over HTTPS may have no clipboard, but a command.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const focused = document.activeElement, field = element("textarea", { "aria-hidden": "true", class: "unseen" });
      field.value = text;
      document.body.append(field);
      field.select();
      const copied = document.execCommand("copy");
      field.remove();
      focused?.focus();
      return copied;
    }
  }

  function linked(numbers) {
    const list = element("ul");
    for (const number of numbers.slice(0, MAX_ITEMS)) {
      const button = element("button", { type: "button" }, nameOf(state.channel.rows[number]));
      button.addEventListener("click", () => { selectRow(number); graph.focus(); });
      list.append(element("li", {}, button));
    }
    if (numbers.length > MAX_ITEMS) list.append(element("li", {}, `and ${numbers.length - MAX_ITEMS} more`));
    return list;
  }

  // ---- search

  function find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    const matches = (...texts) => words.every((word) => texts.some((candidate) => candidate.toLowerCase().includes(word)));
    for (const [number, { name: packageName, channels, bundles }] of catalog.packages.entries()) {
      if (matches(packageName)) found.push({ number, label: packageName, remark: "package" });
      for (const channel of channels)
        if (found.length < MAX_ITEMS && matches(packageName, channel) && !matches(packageName))
          found.push({ number, channel, label: channel, remark: `channel of ${packageName}` });
      for (const [name, version] of bundles) {
        if (found.length >= MAX_ITEMS) return found;
        if (matches(name, version)) found.push({ number, bundle: name, label: name, remark: `bundle of ${packageName}, ${version}` });
      }
    }
    return found;
  }

  let hits = [], active = -1;

  function showResults() {
    hits = search.value.trim() ? find(search.value) : [];
    active = hits.length ? 0 : -1;
    const lines = hits.map((hit, index) => {
      const line = element("li", { role: "option", id: `hit-${index}` }, hit.label, " ", element("small", {}, hit.remark));
      line.addEventListener("pointerdown", (event) => { event.preventDefault(); openHit(index); });
      return line;
    });
    if (search.value.trim() && !hits.length) lines.push(element("li", {}, "No results"));
    if (hits.length >= MAX_ITEMS) lines.push(element("li", {}, `Showing the first ${MAX_ITEMS} results`));
    results.replaceChildren(...lines);
    results.hidden = !lines.length;
    byId("status").textContent = search.value.trim() ? plural(hits.length, "result") : "";
    search.setAttribute("aria-expanded", String(!results.hidden));
    markActive();
  }

  function markActive() {
    [...results.children].forEach((line, index) => line.setAttribute("aria-selected", String(index === active)));
    if (active >= 0) {
      search.setAttribute("aria-activedescendant", `hit-${active}`);
      results.children[active].scrollIntoView({ block: "nearest" });
    } else search.removeAttribute("aria-activedescendant");
  }

  function openHit(index) {
    const hit = hits[index];
    if (!hit) return;
    closeResults();
    showPackage(hit.number, hit.channel, hit.bundle);
    graph.focus();
  }

  function closeResults() {
    results.hidden = true;
    search.setAttribute("aria-expanded", "false");
  }

  // ---- event handlers

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
    const page = Math.max(1, Math.floor(graph.clientHeight / (ROW_HEIGHT * state.zoom)) - 1), end = state.channel.rows.length - 1;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const zooms = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 };
    if (event.key in moves) selectRow(Math.min(end, Math.max(0, state.selected + moves[event.key])));
    else if (event.key in zooms) zoomBy(zooms[event.key]);
    else if (event.key === "n" || event.key === "p") selectProblem(event.key === "n" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  function selectProblem(step) {
    const { rows } = state.channel, count = rows.length;
    for (let distance = 1; distance <= count; distance += 1) {
      const number = (state.selected + step * distance + count * distance) % count;
      if (state.labels.has(nameOf(rows[number]))) return selectRow(number);
    }
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

  function listPackages() {
    byId("packages").replaceChildren(...catalog.packages.map(({ name, bundles, deprecated, problems }, number) => {
      const remark = element("small", {}, plural(bundles.length, "bundle") + (deprecated ? ", deprecated" : ""));
      if (problems) remark.append(", ", element("span", { class: "problem" }, plural(problems, "problem")));
      return element("li", {}, element("button", { type: "button", "data-number": number }, name, remark));
    }));
  }

  function start() {
    listPackages();
    const [name, channel, bundle] = location.hash.slice(1).split("/").filter(Boolean).map((part) => {
      try { return decodeURIComponent(part); } catch { return part; }
    });
    const number = Math.max(0, catalog.packages.findIndex((candidate) => candidate.name === name));
    if (catalog.packages.length) showPackage(number, channel, bundle);
    else byId("name").textContent = "The catalog is empty.";
  }

  byId("packages").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) showPackage(Number(button.dataset.number));
  });
  byId("packages").addEventListener("keydown", onPackagesKey);
  byId("skip").addEventListener("click", () => graph.focus());
  byId("channel").addEventListener("change", (event) => {
    const row = state.channel.rows[state.selected];
    showChannel(Number(event.target.value), row && nameOf(row));
  });
  byId("in").addEventListener("click", () => zoomBy(1.25));
  byId("out").addEventListener("click", () => zoomBy(0.8));
  byId("reset").addEventListener("click", () => zoomBy(0));
  byId("theme").addEventListener("click", () => { theme = (theme + 1) % themes.length; applyTheme(); });
  system.addEventListener("change", applyTheme);
  graph.addEventListener("scroll", repaint, { passive: true });
  graph.addEventListener("keydown", onGraphKey);
  graph.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) selectRow(Number(row.dataset.number));
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
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      search.focus();
    }
  });
  new ResizeObserver(repaint).observe(graph);

  applyTheme();
  start();
})();
