"use strict";
// Draws one channel at a time, and of it only the rows in view. All text of the catalog goes into the page as text.
(() => {
  const ROW = 26, LANE = 18, LEFT = 24, ARCS = 60, MORE = 12, MOST = 200;
  const byId = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(byId(id).textContent);
  const catalog = read("catalog");
  const graph = byId("graph"), height = byId("height"), search = byId("search"), results = byId("results");
  const packages = new Map();
  const state = { number: -1, channel: null, chosen: -1, zoom: 1 };

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function drawn(name, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // A package is read when it is looked at first.
  function load(number) {
    if (!packages.has(number)) {
      const found = read(`package-${number}`);
      for (const channel of found.channels) prepare(channel);
      packages.set(number, found);
    }
    return packages.get(number);
  }

  function prepare(channel) {
    channel.replacedBy = channel.rows.map(() => []);
    channel.skippedBy = channel.rows.map(() => []);
    channel.rows.forEach((row, number) => {
      if (row.replaces !== undefined) channel.replacedBy[row.replaces].push(number);
      for (const skipped of row.skips ?? []) channel.skippedBy[skipped].push(number);
    });
    channel.left = LEFT + (channel.skippedBy.some((skippers) => skippers.length) ? ARCS : 0);
  }

  const inRange = (row, other) => other.rank !== undefined && other !== row &&
    (row.within ?? []).some(([start, end]) => start <= other.rank && other.rank < end);
  const bundleOf = (row) => load(state.number).bundles[row.bundle] ?? {};
  const nameOf = (row) => row.name ?? bundleOf(row).name;

  // ---- choosing a package, a channel, a bundle

  function showPackage(number, channelName, bundleName) {
    state.number = number;
    const shown = load(number);
    for (const button of byId("packages").querySelectorAll("button"))
      button.setAttribute("aria-current", String(Number(button.dataset.number) === number));
    byId("name").textContent = shown.name;
    byId("description").textContent = shown.description ?? "";
    byId("deprecation").textContent = shown.deprecated ? `Deprecated: ${shown.deprecated}` : "";
    showProblems(shown.problems ?? []);
    byId("channel").replaceChildren(...shown.channels.map((channel, index) => element(
      "option", { value: index },
      channel.name + (channel.name === shown.default ? " (default)" : "") + (channel.deprecated ? " (deprecated)" : ""))));
    const wanted = (name) => shown.channels.findIndex((channel) => channel.name === name);
    const holds = (name) => shown.channels.findIndex((channel) => channel.rows.some((row) => row.rank !== undefined &&
      shown.bundles[row.bundle]?.name === name));
    let index = wanted(channelName ?? shown.default);
    if (bundleName !== undefined && channelName === undefined && !has(shown, index, bundleName)) index = holds(bundleName);
    showChannel(Math.max(index, 0), bundleName);
  }

  function has(shown, index, name) {
    return shown.channels[index]?.rows.some((row) => shown.bundles[row.bundle]?.name === name) ?? false;
  }

  function showProblems(problems) {
    const box = byId("problems");
    box.hidden = problems.length === 0;
    box.querySelector("summary").textContent = `${problems.length} problem${problems.length === 1 ? "" : "s"} of this package`;
    box.querySelector("ul").replaceChildren(...problems.map((one) => element("li", {}, one)));
  }

  function showChannel(index, bundleName) {
    const shown = load(state.number);
    const channel = shown.channels[index];
    state.channel = channel ?? { name: "", rows: [], left: LEFT, replacedBy: [], skippedBy: [] };
    byId("channel").value = String(index);
    byId("channel-deprecation").textContent = channel?.deprecated ? `Channel deprecated: ${channel.deprecated}` : "";
    const entries = state.channel.rows.filter((row) => row.rank !== undefined).length;
    byId("count").textContent = `${entries} bundle${entries === 1 ? "" : "s"}`;
    let chosen = bundleName === undefined ? 0 : state.channel.rows.findIndex((row) => nameOf(row) === bundleName);
    if (chosen < 0 || chosen >= state.channel.rows.length) chosen = state.channel.rows.length ? 0 : -1;
    graph.scrollTop = 0;
    resize();
    choose(chosen);
  }

  function choose(number) {
    state.chosen = number;
    if (number >= 0) reveal(number);
    paint();
    showDetails();
    const parts = [load(state.number).name, state.channel.name];
    if (number >= 0) parts.push(nameOf(state.channel.rows[number]));
    history.replaceState(null, "", `#${parts.map(encodeURIComponent).join("/")}`);
  }

  function reveal(number) {
    const size = ROW * state.zoom, top = number * size;
    if (top < graph.scrollTop) graph.scrollTop = top - size;
    else if (top + size > graph.scrollTop + graph.clientHeight) graph.scrollTop = top + 2 * size + 8 - graph.clientHeight;
  }

  // ---- the graph: the rows in view, and the lines that cross it

  function resize() {
    height.style.height = `${state.channel.rows.length * ROW * state.zoom + 8}px`;
    byId("reset").textContent = `${Math.round(state.zoom * 100)} %`;
  }

  let waiting = false;
  function repaint() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); });
  }

  const x = (row) => state.channel.left + row.lane * LANE;
  const y = (number) => number * ROW + ROW / 2 + 4;

  function paint() {
    const { channel, zoom } = state;
    if (!channel) return;
    const size = ROW * zoom, count = channel.rows.length;
    const first = Math.max(0, Math.floor(graph.scrollTop / size) - MORE);
    const last = Math.min(count, Math.ceil((graph.scrollTop + graph.clientHeight) / size) + MORE);
    const top = y(first) - ROW, bottom = y(last) + ROW;
    const lines = drawn("g", { "aria-hidden": "true" }), rows = drawn("g");
    channel.rows.forEach((row, number) => drawUpdates(lines, row, number, first, last));
    for (let number = first; number < last; number += 1) rows.append(drawRow(channel.rows[number], number, count));
    const image = drawn("svg", { role: "presentation" }, lines, rows);
    const wide = Math.max(graph.clientWidth - 2, 300);
    image.setAttribute("width", wide);
    image.setAttribute("height", (bottom - top) * zoom);
    image.setAttribute("viewBox", `0 ${top} ${wide / zoom} ${bottom - top}`);
    image.style.top = `${top * zoom}px`;
    height.replaceChildren(image);
    if (state.chosen >= 0) graph.setAttribute("aria-activedescendant", `row-${state.chosen}`);
    else graph.removeAttribute("aria-activedescendant");
  }

  function drawUpdates(lines, row, number, first, last) {
    const { channel, chosen } = state;
    const crosses = (other) => Math.min(number, other) < last && Math.max(number, other) >= first;
    if (row.replaces !== undefined && crosses(row.replaces)) {
      const kind = number === chosen || row.replaces === chosen ? "replaces chosen" : "replaces";
      lines.append(drawn("path", { class: kind, d: way(row, number, channel.rows[row.replaces], row.replaces) }));
    }
    const skippers = channel.skippedBy[number];
    const nearest = skippers.findLast((one) => one < number) ?? skippers[0];
    if (nearest !== undefined && nearest !== chosen && crosses(nearest))
      lines.append(drawn("path", { class: "skips", d: arc(row, number, channel.rows[nearest], nearest) }));
    if (chosen >= 0 && number >= first && number < last && skippers.includes(chosen))
      lines.append(drawn("path", { class: "skips chosen", d: arc(row, number, channel.rows[chosen], chosen) }));
  }

  function way(row, number, older, other) {
    const [fromX, fromY, toX, toY] = [x(row), y(number), x(older), y(other)];
    if (fromX === toX) return `M${fromX} ${fromY}V${toY}`;
    const turn = toY > fromY ? toY - ROW : toY + ROW;
    return `M${fromX} ${fromY}V${turn}C${fromX} ${toY} ${toX} ${turn} ${toX} ${toY}`;
  }

  function arc(row, number, skipper, other) {
    const left = Math.max(6, state.channel.left - 14 - 6 * Math.abs(number - other));
    return `M${x(row)} ${y(number)}C${left} ${y(number)} ${left} ${y(other)} ${x(skipper)} ${y(other)}`;
  }

  function drawRow(row, number, count) {
    const bundle = bundleOf(row), { channel, chosen } = state, skippers = channel.skippedBy[number];
    const kinds = ["dot"];
    if (row.rank === undefined) kinds.push("outside");
    else if (skippers.length) kinds.push("skipped");
    if (bundle.deprecated) kinds.push("deprecated");
    const label = drawn("text", { x: channel.left + row.lanes * LANE, y: y(number) }, nameOf(row));
    for (const [kind, text] of remarks(row, number, bundle)) label.append(drawn("tspan", { class: kind, dx: 8 }, text));
    const made = drawn("g", {
      class: "row", role: "option", id: `row-${number}`, "data-number": number, "aria-selected": String(number === chosen),
      "aria-posinset": number + 1, "aria-setsize": count,
    }, drawn("rect", { class: "band", x: 0, y: y(number) - ROW / 2, width: 20000, height: ROW }));
    made.append(drawn("circle", { class: kinds.join(" "), cx: x(row), cy: y(number), r: 5 }));
    if (chosen >= 0 && inRange(channel.rows[chosen], row))
      made.append(drawn("circle", { class: "ring", cx: x(row), cy: y(number), r: 9 }));
    made.append(label);
    return made;
  }

  function remarks(row, number, bundle) {
    const { channel } = state, found = [];
    const shown = load(state.number), first = channel.replacedBy[number].length + channel.skippedBy[number].length === 0;
    if (row.rank === undefined) found.push(["more", "not in this channel"]);
    else if (first) found.push(["more", channel.name === shown.default ? "head of the default channel" : "head"]);
    if (bundle.deprecated) found.push(["old", "deprecated"]);
    if (channel.skippedBy[number].length) found.push(["more", "skipped"]);
    if (row.range) found.push(["more", `skip range ${row.range}`]);
    return found;
  }

  // ---- the chosen bundle in full

  function showDetails() {
    const details = byId("details"), { channel, chosen } = state;
    const row = channel.rows[chosen];
    if (!row) {
      details.replaceChildren(element("p", {}, "The channel has no bundles."));
      return;
    }
    const bundle = bundleOf(row), shown = load(state.number);
    const facts = element("dl");
    const fact = (name, ...values) => values.length && facts.append(element("dt", {}, name), element("dd", {}, ...values));
    fact("Version", bundle.version || "unknown");
    if (bundle.deprecated) fact("Deprecated", element("span", { class: "deprecated" }, bundle.deprecated));
    if (bundle.image) fact("Image", ...imageOf(bundle.image));
    fact("Channels", shown.channels.filter((one) => one.rows.some((other) => other.rank !== undefined &&
      other.bundle === row.bundle && other.name === undefined)).map((one) => one.name).join(", ") || "none");
    if (row.rank === undefined) fact("", "It is named in this channel, and not in it.");
    if (row.range) fact("Skip range", element("code", {}, row.range));
    const parts = [element("h2", {}, nameOf(row)), facts];
    const list = (title, numbers) => numbers.length && parts.push(element("h3", {}, `${title} (${numbers.length})`), linked(numbers));
    list("Replaces", row.replaces === undefined ? [] : [row.replaces]);
    list("Skips", row.skips ?? []);
    list("In its skip range", row.within ? indexes((other) => inRange(row, other)) : []);
    list("Replaced by", channel.replacedBy[chosen]);
    list("Skipped by", channel.skippedBy[chosen]);
    list("In the skip range of", row.rank === undefined ? [] : indexes((other) => inRange(other, row)));
    if (bundle.related?.length) parts.push(element("h3", {}, `Related images (${bundle.related.length})`), element(
      "ul", {}, ...bundle.related.slice(0, MOST).map((index) => element("li", {}, ...related(shown.images[index])))));
    details.replaceChildren(...parts);
  }

  const indexes = (test) => state.channel.rows.flatMap((row, number) => (test(row) ? [number] : []));
  const related = ([name, image]) => [...(name ? [`${name}: `] : []), ...imageOf(image)];

  function imageOf(image) {
    const [name, digest] = image.split("@");
    return digest ? [element("code", {}, name), element("br"), element("code", {}, `@${digest}`)] : [element("code", {}, image)];
  }

  function linked(numbers) {
    const list = element("ul");
    for (const number of numbers.slice(0, MOST)) {
      const button = element("button", { type: "button" }, nameOf(state.channel.rows[number]));
      button.addEventListener("click", () => { choose(number); graph.focus(); });
      list.append(element("li", {}, button));
    }
    if (numbers.length > MOST) list.append(element("li", {}, `and ${numbers.length - MOST} more`));
    return list;
  }

  // ---- search

  function find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    const fits = (...texts) => words.every((word) => texts.some((one) => one.toLowerCase().includes(word)));
    for (const [number, one] of catalog.packages.entries()) {
      if (fits(one.name)) found.push({ number, label: one.name, more: "package" });
      for (const channel of one.channels)
        if (found.length < MOST && fits(one.name, channel) && !fits(one.name))
          found.push({ number, channel, label: channel, more: `channel of ${one.name}` });
      for (const [name, version] of one.bundles) {
        if (found.length >= MOST) return found;
        if (fits(name, version)) found.push({ number, bundle: name, label: name, more: `bundle of ${one.name}, ${version}` });
      }
    }
    return found;
  }

  let hits = [], active = -1;

  function showResults() {
    hits = search.value.trim() ? find(search.value) : [];
    active = hits.length ? 0 : -1;
    const lines = hits.map((hit, index) => {
      const line = element("li", { role: "option", id: `hit-${index}` }, hit.label, " ", element("small", {}, hit.more));
      line.addEventListener("pointerdown", (event) => { event.preventDefault(); take(index); });
      return line;
    });
    if (search.value.trim() && !hits.length) lines.push(element("li", {}, "Nothing found"));
    if (hits.length >= MOST) lines.push(element("li", {}, `The first ${MOST} are shown`));
    results.replaceChildren(...lines);
    results.hidden = !lines.length;
    search.setAttribute("aria-expanded", String(!results.hidden));
    mark();
  }

  function mark() {
    [...results.children].forEach((line, index) => line.setAttribute("aria-selected", String(index === active)));
    if (active >= 0) {
      search.setAttribute("aria-activedescendant", `hit-${active}`);
      results.children[active].scrollIntoView({ block: "nearest" });
    } else search.removeAttribute("aria-activedescendant");
  }

  function take(index) {
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

  // ---- what people do

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
    const page = Math.max(1, Math.floor(graph.clientHeight / (ROW * state.zoom)) - 1), end = state.channel.rows.length - 1;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const zooms = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 };
    if (event.key in moves) choose(Math.min(end, Math.max(0, state.chosen + moves[event.key])));
    else if (event.key in zooms) zoomBy(zooms[event.key]);
    else return;
    event.preventDefault();
  }

  function onSearchKey(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (hits.length) active = (active + step + hits.length) % hits.length;
      mark();
    } else if (event.key === "Enter") take(active);
    else if (event.key === "Escape") closeResults();
    else return;
    event.preventDefault();
  }

  const themes = ["system", "light", "dark"], system = matchMedia("(prefers-color-scheme: dark)");
  let theme = 0;
  function applyTheme() {
    const dark = themes[theme] === "dark" || (themes[theme] === "system" && system.matches);
    document.documentElement.classList.toggle("dark", dark);
    byId("theme").setAttribute("aria-label", `Colours: ${["as the system has them", "light", "dark"][theme]}`);
    byId("theme").textContent = "◐☀☾"[theme];
  }

  function listPackages() {
    byId("packages").replaceChildren(...catalog.packages.map((one, number) => {
      const counts = `${one.bundles.length} bundle${one.bundles.length === 1 ? "" : "s"}`;
      const told = one.deprecated ? `${counts}, deprecated` : counts;
      return element("li", {}, element("button", { type: "button", "data-number": number }, one.name, element("small", {}, told)));
    }));
  }

  function start() {
    listPackages();
    const [name, channel, bundle] = location.hash.slice(1).split("/").filter(Boolean).map((part) => {
      try { return decodeURIComponent(part); } catch { return part; }
    });
    const number = Math.max(0, catalog.packages.findIndex((one) => one.name === name));
    if (catalog.packages.length) showPackage(number, channel, bundle);
    else byId("name").textContent = "The catalog is empty.";
  }

  byId("packages").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) showPackage(Number(button.dataset.number));
  });
  byId("channel").addEventListener("change", (event) => {
    const row = state.channel.rows[state.chosen];
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
    if (row) choose(Number(row.dataset.number));
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
