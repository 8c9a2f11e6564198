// Search for packages, channels, bundles and versions.
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
  openSheet();
  graph.focus();
}

function closeResults() {
  results.hidden = true;
  search.setAttribute("aria-expanded", "false");
}
