// The page beside gradio: project and tab stand in the address, and names that gradio's own parts give are mended.
(() => {
  if (window.studioPage) return
  const params = () => new URL(location.href).searchParams

  // `wanted` holds what the address shall say; going to another project is a step that "back" undoes.
  const go = (wanted, isStep) => {
    const address = new URL(location.href)
    for (const [name, value] of Object.entries(wanted)) value ? address.searchParams.set(name, value) : address.searchParams.delete(name)
    if (address.href !== location.href) history[isStep ? 'pushState' : 'replaceState'](wanted, '', address)
  }
  const tabs = () => [...document.querySelectorAll('[role="tab"][data-tab-id]')]
  const open = name => tabs().find(tab => tab.dataset.tabId === name && tab.getAttribute('aria-selected') !== 'true')?.click()

  document.addEventListener('click', event => {
    const tab = event.target.closest?.('[role="tab"][data-tab-id]')
    if (tab && event.isTrusted) go({ tab: tab.dataset.tabId }, true)
  })
  // No answer at all is what a server that stopped, or a lost network, gives; gradio's polls go on and end it.
  const ask = window.fetch
  let asked = 0, quiet = 0
  window.fetch = async (...given) => {
    const address = new URL(given[0]?.url ?? given[0], location.href), isOwn = address.host === location.host
    const isAsked = address.pathname.endsWith('/run/predict')
    asked += isAsked
    try {
      const answer = await ask(...given)
      if (isOwn) document.body.classList.remove('offline')
      return answer
    } catch (error) {
      if (isOwn && error instanceof TypeError) document.body.classList.add('offline')
      throw error
    } finally {
      asked -= isAsked
      if (isAsked) quiet = 0
    }
  }

  // Browsers shape speech for calls, and gradio's recorder has no setting for it: a voice is learned from sound as it was said.
  const media = navigator.mediaDevices, record = media?.getUserMedia.bind(media)
  const asSaid = { autoGainControl: false, echoCancellation: false, noiseSuppression: false }
  if (media) media.getUserMedia = wanted => record({ ...wanted, audio: wanted.audio && { ...wanted.audio, ...asSaid } })

  // Single keys work only while the focus is among the clips, and never where somebody types.
  const KEYS = { ' ': ['#clip-sound .play-pause-button'], ArrowLeft: ['#clip-previous'], ArrowRight: ['#clip-next'], x: ['#clip-exclude', '#clip-restore'] }
  document.addEventListener('keydown', event => {
    const at = event.target, box = document.querySelector('#clip-box')
    if (event.ctrlKey || event.metaKey || event.altKey || !at.closest?.('#clips') || !box?.offsetParent) return
    if (event.key === 'Escape' && at.closest('#clip-text')) at.blur()
    if (at.matches('input, textarea, select, [contenteditable=true]') || at.closest('[role=slider], [role=listbox]')) return
    if (event.key === ' ' && at.closest('button, summary, a')) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const target = key === 'e' ? box.querySelector('#clip-text textarea') : KEYS[key]?.map(name => document.querySelector(name)).find(found => found && !found.disabled)
    if (!target) return
    event.preventDefault()
    event.stopPropagation()
    key === 'e' ? target.focus() : target.click()
  }, true)

  // Help hides what is above it: Escape takes it away until something else is pointed at or focused.
  document.addEventListener('keydown', event => event.key === 'Escape' && root.classList.add('no-help'))
  for (const kind of ['pointerover', 'focusin']) document.addEventListener(kind, () => root.classList.remove('no-help'))

  let project = null, isOpened = false, isMounted = false, isDue = false
  window.addEventListener('popstate', () => {
    // gradio's lists are filled by the server: another project is loaded with the page.
    if ((params().get('project') ?? '') !== (project ?? '')) location.reload()
    else open(params().get('tab') ?? tabs()[0]?.dataset.tabId)
  })

  const ROUNDED = /(\d+\.\d{2})\d{3,}/g
  const mend = element => {
    const name = element.getAttribute('aria-label')
    if (name && name.search(ROUNDED) >= 0) element.setAttribute('aria-label', name.replace(ROUNDED, '$1'))
    // A name needs a role: gradio's empty boxes have none.
    if (name && element.localName === 'div' && !element.hasAttribute('role')) element.setAttribute('role', 'group')
    if (element.getAttribute('role') === 'status' && /^common\.\w+$/.test(element.textContent.trim())) element.textContent = ''
  }
  // The bar at the bottom shows the steps of the tab that is open.
  const look = () => {
    for (const element of document.querySelectorAll('[aria-label], [role="status"]')) mend(element)
    const opened = tabs().find(tab => tab.getAttribute('aria-selected') === 'true')?.dataset.tabId
    for (const name of ['data', 'train', 'inference', 'system']) root.classList.toggle(`on-${name}`, name === opened)
    if (!isOpened && tabs().length) {
      isOpened = true
      // Also where gradio's own start does not come to its end.
      setTimeout(mounted, MOUNT_MS)
      if (params().get('tab')) open(params().get('tab'))
    }
  }
  // A message of the browser when a run that was seen going on has ended.
  const LIVE = ['starting', 'running', 'stopping'], seen = new Map()
  const watchRun = () => {
    const panel = document.querySelector('#train-progress [data-run]')
    if (!panel) return
    const { run, state } = panel.dataset, before = seen.get(run)
    seen.set(run, state)
    if (!LIVE.includes(before) || LIVE.includes(state) || localStorage.studioNotify !== 'on') return
    new Notification(document.title, { body: panel.querySelector('.run-title')?.textContent ?? run, tag: run })
  }
  const notify = async isWanted => {
    const may = isWanted && 'Notification' in window && (await Notification.requestPermission()) === 'granted'
    localStorage.studioNotify = may ? 'on' : 'off'
    return may
  }

  // gradio mounts one part after the other, each of which pushes the others: the page is seen when that is over, and
  // what a tab holds when the first answers have filled it. Spinners run on, in nobody's way.
  const QUIET_FRAMES = 8, MOUNT_MS = 1500, ANSWER_MS = 15000, SPINNER = '[data-testid="status-tracker"]'
  // What the poll fills in whatever state a project is: between two answers nothing is asked for a moment.
  const POLLED = '#activity, #gpu-panel, #train-progress'
  const root = document.documentElement
  root.classList.add('filling', 'unanswered')
  // Frames, not a time: a busy browser draws fewer, and a timer would end while it still fills the page.
  const showWhenQuiet = () => {
    if (!root.classList.contains('unanswered')) return
    if (document.querySelector('input[type=password]')) root.classList.remove('filling', 'unanswered')
    quiet = isMounted ? quiet + 1 : 0
    if (quiet >= QUIET_FRAMES) {
      // A tab whose parts are still loaded is empty, and still.
      const panel = [...document.querySelectorAll('[role="tabpanel"]')].find(one => one.offsetParent)
      const isFilled = !asked && panel?.querySelector('.block') && [...document.querySelectorAll(POLLED)].every(part => part.querySelector('.prose > *'))
      root.classList.remove('filling', isFilled ? 'unanswered' : 'filling')
    }
    requestAnimationFrame(showWhenQuiet)
  }
  const mounted = () => {
    if (isMounted) return
    isMounted = true
    setTimeout(() => root.classList.remove('filling'), MOUNT_MS)
    setTimeout(() => root.classList.remove('unanswered'), ANSWER_MS)
  }
  showWhenQuiet()
  const isSpinner = ({ target }) => (target.closest ? target : target.parentElement)?.closest(SPINNER)

  new MutationObserver(changes => {
    if (!changes.every(isSpinner)) quiet = 0
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => { isDue = false; look(); watchRun() })
  }).observe(document.documentElement, { subtree: true, childList: true, characterData: true, attributeFilter: ['aria-label', 'aria-selected', 'data-state'] })

  // A tab that opens for the first time has its boxes some frames later, and lets them be focused later still.
  const focus = (place, frames = 120) => {
    const box = document.querySelector(place)
    box?.focus()
    if (frames && (!box || document.activeElement !== box)) requestAnimationFrame(() => focus(place, frames - 1))
  }

  window.studioPage = {
    notify,
    // With a field, its box is written in at once; under a finger a keyboard would cover the page.
    open: (name, field) => {
      open(name)
      go({ tab: name }, true)
      if (field && !matchMedia('(pointer: coarse)').matches) focus(`${field} textarea`)
    },
    notifies: () => localStorage.studioNotify === 'on' && 'Notification' in window && Notification.permission === 'granted',
    wanted: name => { mounted(); return params().get('project') || name },
    show: name => {
      const isStep = project !== null && project !== name
      project = name || null
      go({ project: name }, isStep)
    },
  }
})()
