// Elements of the page. Texts of the catalog are only ever inserted as text nodes and attributes.
const byId = (id) => document.getElementById(id);
const phone = matchMedia("(max-width: 760px)");
const graph = byId("graph"), height = byId("height"), search = byId("search"), results = byId("results");

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svgElement = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const ruler = element("canvas").getContext("2d"), { fontSize, fontFamily } = getComputedStyle(document.body);
ruler.font = `600 ${fontSize} ${fontFamily}`;
const boldWidth = (text) => ruler.measureText(text).width;

function button(action, attributes, ...children) {
  const node = element("button", { type: "button", ...attributes }, ...children);
  node.addEventListener("click", action);
  return node;
}

// Unlike scrollIntoView, does not scroll the page on small screens.
function scrollWithin(list, item) {
  const outer = list.getBoundingClientRect(), inner = item.getBoundingClientRect();
  if (inner.top < outer.top) list.scrollTop += inner.top - outer.top - 8;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 8;
}

const announce = (text) => { byId("status").textContent = text; };

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

function copyButton(noun, text) {
  const node = button(async () => {
    const copied = await copy(text);
    node.textContent = copied ? "copied" : "failed";
    announce(copied ? `Copied ${text}` : "The browser does not permit copying.");
  }, { class: "copy", title: `Copy the ${noun}`, "aria-label": `Copy the ${noun} ${text}` }, "copy");
  return node;
}
