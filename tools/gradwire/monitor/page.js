// Replaces the parts of the page once a second. Without scripts the browser loads the page again.
'use strict';
const parts = ['state', 'facts', 'hang', 'tiles', 'workers', 'events'];
const lost = document.getElementById('lost');
// The key is in a cookie by now, and is not to stay in the history.
const where = new URL(location.href);
where.searchParams.delete('key');
history.replaceState(null, '', where);
async function update() {
  try {
    const reply = await fetch(where, { cache: 'no-store' });
    if (!reply.ok) throw new Error(reply.status);
    const next = new DOMParser().parseFromString(await reply.text(), 'text/html');
    document.title = next.title;
    for (const name of parts) {
      const from = next.getElementById(name), to = document.getElementById(name);
      if (from && to && from.innerHTML !== to.innerHTML)
        to.replaceChildren(...document.adoptNode(from).childNodes);
    }
    lost.hidden = true;
  } catch {
    lost.hidden = false;
  }
}
async function turn() {
  if (!document.hidden) await update();
  setTimeout(turn, 1000);
}
setTimeout(turn, 1000);
