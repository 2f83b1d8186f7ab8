// Building the page: elements with text, never with markup.

const dom = (() => {
  // el('td', { class: 'number', onclick: f }, 'text', child, …)
  function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }

  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
  }

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value == null || value === false) continue;
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else if (name === 'style') Object.assign(node.style, value);
      else if (name === 'data') Object.assign(node.dataset, value);
      else node.setAttribute(name, value === true ? '' : format.visible(value));
    }
    append(node, children);
    return node;
  }

  function append(node, children) {
    for (const child of children.flat(Infinity)) {
      if (child == null || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(format.visible(child)));
    }
  }

  function replace(node, ...children) {
    node.replaceChildren();
    append(node, children);
  }

  const byId = (id) => document.getElementById(id);

  // Where a click on anything but text being selected means the whole row.
  function clickable(node, action) {
    node.classList.add('clickable');
    node.addEventListener('click', (event) => {
      if (String(getSelection()) === '' && !event.target.closest('a, button, input')) action(event);
    });
    return node;
  }

  return { el, svg, append, replace, byId, clickable };
})();
const { el, svg, byId } = dom;
