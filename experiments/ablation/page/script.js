// Find and sort translations. Without this script all of them are shown, in the order of the text.
for (const box of document.querySelectorAll(".translations")) {
  const [search, order, found, more] = ["input", "select", "output", "button"].map((name) => box.querySelector(name));
  const articles = [...box.querySelectorAll("article")];
  const keys = {
    number: (one) => Number(one.dataset.number),
    gain: (one) => -Number(one.dataset.change),
    loss: (one) => Number(one.dataset.change),
  };
  let shown = 10;
  const show = () => {
    const words = search.value.toLowerCase();
    const matching = articles.filter((one) => one.textContent.toLowerCase().includes(words));
    const key = keys[order.value];
    matching.sort((a, b) => key(a) - key(b) || keys.number(a) - keys.number(b));
    for (const one of articles) one.hidden = true;
    for (const one of matching.slice(0, shown)) {
      one.hidden = false;
      more.before(one);
    }
    more.hidden = matching.length <= shown;
    found.textContent = `${Math.min(shown, matching.length)} of ${matching.length} sentences`;
  };
  for (const control of [search, order]) control.addEventListener("input", () => { shown = 10; show(); });
  more.addEventListener("click", () => { shown += 50; show(); });
  show();
}
