// All text is set as text, never as HTML: sentences and tables are not trusted.
"use strict";

const NBEST = 10;
const OPTIONS = 8;
const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const { className, ...attributes } = options;
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function bar(probability, className = "bar") {
  const made = element("div", { className });
  made.style.width = `${100 * Math.min(1, Math.max(0, probability))}%`;
  return made;
}

const shown = (number) => (number >= 0.0005 || number <= 0 ? number.toFixed(3) : number.toExponential(1));

async function fetchJson(path, body) {
  const request = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, request);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function columnTable(columns) {
  const rows = Object.entries(columns).map(([name, probability]) =>
    element("tr", {},
      element("th", { scope: "row" }, name),
      element("td", { className: "bars" }, bar(probability)),
      element("td", { className: "number" }, shown(probability))));
  return element("table", {}, element("caption", {}, "Columns of the phrase table, as probabilities"), ...rows);
}

function optionTable(phrase, words) {
  const chosen = words.slice(...phrase.target).join(" ");
  const inContext = phrase.options.some((option) => option.without_sentence !== undefined);
  const textOf = (option) => option.words.join(" ");
  const first = phrase.options.filter((option, rank) => rank < OPTIONS || textOf(option) === chosen);
  const rows = first.map((option) => {
    const text = textOf(option);
    const name = inContext ? "in context" : "target given source";
    const probability = option.columns[name];
    const bars = [];
    const numbers = [];
    if (probability !== undefined) {
      bars.push(bar(probability));
      numbers.push(element("div", {}, shown(probability)));
    }
    if (option.without_sentence !== undefined) {
      bars.push(bar(option.without_sentence, "bar alone"));
      numbers.push(element("div", { className: "small" }, shown(option.without_sentence)));
    }
    return element("tr", text === chosen ? { className: "chosen" } : {},
      element("th", { scope: "row" }, text || "(nothing)"),
      element("td", { className: "bars" }, ...bars),
      element("td", { className: "number" }, ...numbers));
  });
  const caption = inContext
    ? element("caption", {}, "Probability by the network: ", element("span", { className: "key" }), " with the sentence, ",
      element("span", { className: "key alone" }), " without it")
    : element("caption", {}, "Probability given the source phrase, by the phrase table");
  return element("table", {}, caption, ...rows);
}

function details(translation, phrase) {
  const source = translation.source.slice(...phrase.source).join(" ");
  const target = translation.words.slice(...phrase.target).join(" ");
  const heading = element("h3", {}, `${source} → ${target || "(nothing)"}`);
  if (!Object.keys(phrase.columns).length) {
    return [heading, element("p", { className: "small" }, "This word is not in the phrase table, so it is copied.")];
  }
  const options = phrase.options.length > 1 ? [element("h3", {}, "Best options of this source phrase"), optionTable(phrase, translation.words)] : [];
  return [heading, columnTable(phrase.columns), ...options];
}

function nbestList(translation) {
  const items = translation.nbest.map((one) => {
    const features = Object.entries(one.features).map(([name, values]) => `${name} ${values.map((value) => value.toFixed(2)).join(" ")}`);
    return element("li", {}, one.text, element("div", { className: "small" }, `score ${one.score.toFixed(3)}; ${features.join(", ")}`));
  });
  return element("details", {}, element("summary", {}, `${items.length}-best list`), element("ol", {}, ...items));
}

function systemSection(name, translation) {
  const sources = translation.source.map((word, index) => {
    const isUnknown = translation.unknown.includes(index);
    return element("span", isUnknown ? { className: "unknown", title: "not in the phrase table" } : {}, word);
  });
  const place = element("div", { "aria-live": "polite" });
  let pinned = null;
  const targets = translation.phrases.map((phrase) =>
    element("button", { type: "button", "aria-pressed": "false" }, translation.words.slice(...phrase.target).join(" ") || "∅"));
  const show = (index) => {
    if (index === null) return;
    const phrase = translation.phrases[index];
    sources.forEach((word, i) => word.classList.toggle("covered", i >= phrase.source[0] && i < phrase.source[1]));
    targets.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === pinned));
      button.classList.toggle("covered", i === index);
    });
    place.replaceChildren(...details(translation, phrase));
  };
  targets.forEach((button, index) => {
    button.addEventListener("mouseenter", () => show(index));
    button.addEventListener("mouseleave", () => show(pinned));
    button.addEventListener("focus", () => show(pinned = index));
    button.addEventListener("click", () => show(pinned = index));
  });
  const unknown = translation.unknown.map((index) => translation.source[index]);
  const section = element("section", { "aria-label": name },
    element("h2", {}, name),
    element("p", { className: "translation" }, translation.text),
    element("div", { className: "words source" }, ...sources),
    element("div", { className: "words target" }, ...targets),
    ...(unknown.length ? [element("p", { className: "small" }, `Not in the phrase table: ${unknown.join(", ")}`)] : []),
    place,
    nbestList(translation));
  if (targets.length) show(pinned = 0);
  return section;
}

async function translate(event) {
  event.preventDefault();
  const status = byId("status");
  status.className = "";
  status.textContent = "Translating …";
  const asked = { text: byId("text").value, prepared: byId("prepared").checked, nbest: NBEST, options: true };
  const began = performance.now();
  try {
    const { systems } = await fetchJson("health");
    const answers = await Promise.all(systems.map(({ name }) => fetchJson("translate", { ...asked, system: name })));
    byId("systems").replaceChildren(...answers.map((answer) => systemSection(answer.system, answer.translations[0])));
    status.textContent = `Translated in ${((performance.now() - began) / 1000).toFixed(2)} s`;
  } catch (error) {
    status.className = "error";
    status.textContent = `Not translated: ${error.message}`;
  }
}

byId("form").addEventListener("submit", translate);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
});
fetchJson("health").then(({ systems }) => {
  // Without knowledge of the preparation, only tokens can be translated.
  const prepares = systems.every((system) => system.prepares);
  byId("prepared").checked = !prepares;
  byId("prepared").disabled = !prepares;
});
