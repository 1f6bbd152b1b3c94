// Live playback: plays a take while it is spoken. The status of a take names the address of its sound (data-sound):
// mono samples, 16 bit, little-endian, at 24 000 Hz, in chunks of any size.
(() => {
  if (window.livePlayer) return
  const RATE = 24000
  const START_S = 0.05 // between the arrival of the first samples and their sound, on devices that are fast enough
  const HELD = 1200 // samples at the end that wait for what follows: without it they are faded out
  const SOON_S = 0.04 // before the end of what is scheduled, those are given up waiting
  const FADE = 120 // samples
  const FIRST_LEAD_S = 0.25, MAX_LEAD_S = 4
  const known = new Set()
  let audio = null, current = null
  let start = START_S // as earlier takes have shown it to be needed on this device

  // One for the page, made at the click: it takes a while to open, and browsers want a click before it.
  const open = () => {
    audio ??= new AudioContext({ sampleRate: RATE, latencyHint: 'interactive' })
    if (audio.state === 'suspended') audio.resume()
    return audio
  }

  class Playback {
    constructor(address) {
      open()
      this.volume = audio.createGain()
      this.volume.connect(audio.destination)
      this.pending = new Float32Array(0)
      this.end = 0 // of what is scheduled, in the time of `audio`
      this.played = 0 // seconds scheduled
      this.lead = 0 // seconds that must be there before it goes on after a gap; doubled by each
      this.gaps = 0
      this.isComplete = false
      this.isFaded = false
      this.abort = new AbortController()
      this.receive(address).catch(error => { if (error.name !== 'AbortError') console.error(error) })
    }

    async receive(address) {
      const answer = await fetch(new URL(address, document.baseURI), { signal: this.abort.signal })
      if (!answer.ok) throw new Error(`${address}: ${answer.status}`)
      let odd = new Uint8Array(0)
      for (const reader = answer.body.getReader(); ;) {
        const { value, done } = await reader.read()
        if (done) break
        const bytes = new Uint8Array(odd.length + value.length)
        bytes.set(odd)
        bytes.set(value, odd.length)
        const whole = bytes.length - bytes.length % 2
        odd = bytes.slice(whole)
        const view = new DataView(bytes.buffer, 0, whole)
        this.add(Float32Array.from({ length: whole / 2 }, (_, n) => view.getInt16(2 * n, true) / 32768))
      }
      this.isComplete = true
      this.flush()
      if (!this.gaps) start = Math.max(START_S, 0.8 * start)
    }

    add(samples) {
      const both = new Float32Array(this.pending.length + samples.length)
      both.set(this.pending)
      both.set(samples, this.pending.length)
      this.pending = both
      this.flush()
    }

    flush() {
      const isPlaying = this.end > audio.currentTime
      if (!isPlaying && !this.isComplete && this.pending.length < Math.max(HELD + 1, this.lead * RATE)) return
      if (!isPlaying && this.end && this.pending.length) {
        this.gaps += 1
        start = Math.min(1, start + audio.currentTime - this.end)
      }
      const count = this.pending.length - (this.isComplete ? 0 : HELD)
      if (count > 0) this.schedule(count)
      if (!this.isComplete) this.watch()
    }

    // Just before what is scheduled has been played: without more, the last samples end softly.
    watch() {
      clearTimeout(this.timer)
      const left = this.end - audio.currentTime
      if (this.end && left < SOON_S) {
        if (this.pending.length && !this.isFaded) {
          this.schedule(this.pending.length, true)
          this.lead = Math.min(MAX_LEAD_S, Math.max(FIRST_LEAD_S, 2 * this.lead))
        }
      } else if (this.end) this.timer = setTimeout(() => this.watch(), Math.max(1, 1000 * (left - SOON_S) + 2))
    }

    schedule(count, isLast = false) {
      const samples = this.pending.slice(0, count)
      this.pending = this.pending.slice(count)
      const ramp = Math.min(FADE, count)
      if (this.isFaded || (this.end && this.end <= audio.currentTime)) for (let n = 0; n < ramp; n++) samples[n] *= n / ramp
      if (isLast) for (let n = 0; n < ramp; n++) samples[count - 1 - n] *= n / ramp
      this.isFaded = isLast
      const buffer = audio.createBuffer(1, count, RATE)
      buffer.copyToChannel(samples, 0)
      const source = audio.createBufferSource()
      source.buffer = buffer
      source.connect(this.volume)
      // A whole number of samples: between two of them, the browser would interpolate both buffers.
      const begin = Math.ceil(Math.max(this.end, audio.currentTime + (this.end > audio.currentTime ? 0 : this.end ? START_S : start)) * RATE - 0.01) / RATE
      source.start(begin)
      this.end = begin + count / RATE
      this.played += count / RATE
    }

    stop() {
      this.abort.abort()
      clearTimeout(this.timer)
      this.isComplete = true
      this.pending = new Float32Array(0)
      this.volume.gain.setTargetAtTime(0, audio.currentTime, 0.005)
      this.end = 0
    }
  }

  const play = address => {
    if (known.has(address)) return
    known.add(address)
    current?.stop()
    current = new Playback(address)
  }

  new MutationObserver(() => {
    const found = document.querySelector('#take-status [data-sound]')
    if (found) play(found.dataset.sound)
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ['data-sound'] })

  document.addEventListener('click', event => {
    if (event.target.closest?.('#speak, #continue-take')) open()
    if (event.target.closest?.('#stop-speaking')) current?.stop()
    const pause = event.target.closest?.('#live-pause')
    if (pause && audio) audio.state === 'running' ? audio.suspend() : audio.resume()
  })

  setInterval(() => {
    const button = document.getElementById('live-pause'), time = document.getElementById('live-time')
    if (!button || !time) return
    const left = current ? Math.max(0, current.end - audio.currentTime) : 0
    button.disabled = !left
    button.textContent = audio?.state === 'suspended' && left ? button.dataset.resume : button.dataset.pause
    const words = current ? `${(current.played - Math.min(left, current.played)).toFixed(1)} s / ${current.played.toFixed(1)} s` : ''
    if (time.textContent !== words) time.textContent = words
  }, 250)

  window.livePlayer = { get state() { return current && { played: current.played, gaps: current.gaps, end: current.end } } }
})()
