-- Simulates a packet network by discrete events: hosts send to each other over switches with
-- bounded queues; lost packets are sent again after a timeout that doubles.
--
--     lua5.4 network.lua HOSTS EVENTS
--
-- Prints what was sent, delivered and lost, the mean delay, and a digest of all deliveries.
-- Fails if a packet was neither delivered, lost, nor is still under way.

local hosts, events_wanted = tonumber(arg[1]), tonumber(arg[2])
assert(hosts and events_wanted, "usage: network.lua HOSTS EVENTS")

local QUEUE_PACKETS_MAX = 24
local LINK_DELAY, SERVICE_TIME, TIMEOUT = 40, 9, 4000

-- Chance: a linear congruential generator on 64 bits, of which the upper bits are used.
local state = 0x9e3779b97f4a7c15
local function below(bound)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % bound
end

-- Future events: a binary heap by time, then by the order in which they were made.
local heap, size, made = {}, 0, 0
local function earlier(a, b)
  return a.time < b.time or a.time == b.time and a.order < b.order
end
local function at(time, act, packet, place)
  made = made + 1
  local event = { time = time, order = made, act = act, packet = packet, place = place }
  size = size + 1
  local i = size
  while i > 1 and earlier(event, heap[i // 2]) do
    heap[i] = heap[i // 2]
    i = i // 2
  end
  heap[i] = event
end
local function next_event()
  local first, last = heap[1], heap[size]
  heap[size] = nil
  size = size - 1
  local i = 1
  while 2 * i <= size do
    local child = 2 * i
    if child < size and earlier(heap[child + 1], heap[child]) then child = child + 1 end
    if not earlier(heap[child], last) then break end
    heap[i] = heap[child]
    i = child
  end
  heap[i] = size > 0 and last or nil
  return first
end

-- The network: hosts hang on switches, switches form a ring with chords.
local switches = {}
local switch_count = math.max(4, hosts // 16)
for i = 1, switch_count do
  -- The queue is a ring; `head` counts what has left it, `tail` what has entered it.
  switches[i] = { index = i, queue = {}, head = 0, tail = 0, busy = false }
end
local host = {}
for i = 1, hosts do
  host[i] = { index = i, switch = switches[(i - 1) % switch_count + 1], inbox = {}, received = 0 }
end
local function towards(from, to)
  local ahead = (to.index - from.index) % switch_count
  local chord = math.max(2, switch_count // 8)
  local step = ahead >= chord and chord or 1
  return switches[(from.index - 1 + step) % switch_count + 1]
end

local now, sent, delivered, lost, delay_sum, digest, under_way = 0, 0, 0, 0, 0, 0, 0
local arrive, serve, send, timeout, think

function send(packet)
  packet.tries = packet.tries + 1
  packet.left_at = now
  packet.path = {}
  under_way = under_way + 1
  at(now + LINK_DELAY, arrive, packet, packet.from.switch)
end
function arrive(packet, switch)
  if switch.tail - switch.head >= QUEUE_PACKETS_MAX then
    lost = lost + 1
    under_way = under_way - 1
    at(now + TIMEOUT * (1 << packet.tries), timeout, packet)
    return
  end
  switch.queue[switch.tail % QUEUE_PACKETS_MAX + 1] = packet
  switch.tail = switch.tail + 1
  if not switch.busy then
    switch.busy = true
    at(now + SERVICE_TIME, serve, nil, switch)
  end
end
function serve(_, switch)
  local packet = switch.queue[switch.head % QUEUE_PACKETS_MAX + 1]
  switch.head = switch.head + 1
  packet.path[#packet.path + 1] = switch.index
  if packet.to.switch == switch then
    local to = packet.to
    delivered = delivered + 1
    under_way = under_way - 1
    delay_sum = delay_sum + now - packet.left_at
    digest = (digest * 31 + packet.number * 7 + #packet.path) % 1000003
    to.received = to.received + 1
    -- A host keeps what it got last.
    to.inbox[to.received % 32 + 1] = packet
  else
    at(now + LINK_DELAY + below(8), arrive, packet, towards(switch, packet.to.switch))
  end
  if switch.head < switch.tail then
    at(now + SERVICE_TIME, serve, nil, switch)
  else
    switch.busy = false
  end
end
function timeout(packet)
  if packet.tries < 4 then send(packet) end
end
function think(_, from)
  sent = sent + 1
  send { number = sent, from = from, to = host[below(hosts) + 1], tries = 0 }
  at(now + 600 + below(4000), think, nil, from)
end

for i = 1, hosts do at(below(4000), think, nil, host[i]) end
local handled = 0
while handled < events_wanted do
  local event = next_event()
  now = event.time
  event.act(event.packet, event.place)
  handled = handled + 1
end

local waiting = 0
for i = 1, size do
  if heap[i].act == arrive then waiting = waiting + 1 end
end
for _, switch in ipairs(switches) do waiting = waiting + switch.tail - switch.head end
assert(waiting == under_way, "a packet has vanished")
print(string.format("%d events until %d: sent %d, delivered %d, lost %d, mean delay %.3f, digest %06d",
  handled, now, sent, delivered, lost, delay_sum / delivered, digest))
