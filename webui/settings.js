// The settings of tab 2: a mark at each that differs from its default.
(() => {
  if (window.studioSettings) return
  const column = () => document.querySelector('#train-settings')

  let lastSaid = '', setBy = {}, defaults = {}, words = null
  const isSame = (one, other) => {
    const [a, b] = [one, other].map(value => String(value ?? '').trim())
    return a === b || (a !== '' && b !== '' && Number(a) === Number(b))
  }
  // ids: one for each value; said: who set the form last, to what, with each default, also in words, and the marks' own.
  let lastMark = null
  // The base's own defaults come with a poll.
  const watch = new MutationObserver(() => mark(...lastMark))
  const mark = (ids, said, values) => {
    if (!lastMark) watch.observe(column(), { subtree: true, attributeFilter: ['placeholder'] })
    lastMark = [ids, '', values]
    if (said && said !== lastSaid) {
      lastSaid = said
      const { origin, settings, ...rest } = JSON.parse(said)
      ;({ defaults, words } = rest)
      if (origin === 'project') setBy = {}
      for (const [id, value] of Object.entries(settings)) setBy[id] = [origin, value]
    }
    let count = 0
    ids.forEach((id, index) => {
      const field = column()?.querySelector(`[id="${id}"]`)
      if (!defaults[id]) return
      const [plain, plainWords] = defaults[id], isPlain = isSame(values[index], plain)
      // The fold counts those behind it, and those that a settings file alone sets.
      count += !isPlain && !field?.closest('.explained')
      if (!field) return
      let note = field.querySelector('.setting-mark')
      if (isPlain) return note?.remove()
      note ??= field.appendChild(Object.assign(document.createElement('div'), { className: 'setting-mark' }))
      const [origin, value] = setBy[id] ?? []
      const by = origin && isSame(value, values[index]) ? origin : 'you'
      const written = plainWords || field.querySelector('input, textarea')?.placeholder || words.open
      note.textContent = `${words.by[by]} · ${words.default.replace('{value}', written)}`
    })
    const fold = column()?.querySelector('#all-settings .label-wrap > span')
    if (fold && words) fold.dataset.changed = count ? ` · ${words.count.replace('{count}', count)}` : ''
    return ''
  }
  // What lies behind a fold is not there before it opens: then it is marked like the rest.
  document.addEventListener('click', event => {
    if (!event.target.closest?.('#train-settings button.label-wrap')) return
    setTimeout(() => {
      if (lastMark) mark(...lastMark)
      // Its label names the button to copy, which comes first in it.
      const title = document.querySelector('#command [data-testid="block-info"]')
      if (title) document.querySelector('#command textarea').setAttribute('aria-label', title.textContent.trim())
    }, 100)
  })
  window.studioSettings = { mark }
})()
