-- Whether an id is new, by Bloom filters that grow; upon `numbers`. R has the `capacity` and the
-- `error` of the first stage. Each further stage holds twice as much and errs half as often, so that
-- all together stay below twice the first's error.
--
-- All bits of an id lie in one block of 128 bytes: one command reads them, where one for each bit
-- would take ten times as long. Blocks fill unevenly, which costs a tenth more memory.

local BLOCK = 128 -- bytes
local BITS = BLOCK * 8
local MAX_BLOCKS = 4194304 -- Redis has no longer strings
local MASKS = {[0] = 1, 2, 4, 8, 16, 32, 64, 128}

-- The chance that an id is taken for one of so many that lie in a block on average.
local function error_of(mean, hashes)
  local sum, chance = 0, math.exp(-mean)
  for held = 1, math.ceil(mean + 12 * math.sqrt(mean) + 10) do
    chance = chance * mean / held
    sum = sum + chance * (1 - (1 - 1 / BITS) ^ (held * hashes)) ^ hashes
  end
  return sum
end

local function stage_key(stage)
  return P .. ':f:' .. digits(stage)
end

local function grow()
  local stage = num('stages') + 1
  local name = digits(stage)
  local error = R.error / 2 ^ (stage - 1)
  local hashes = math.max(1, math.floor(-math.log(error) / math.log(2) - 1))
  local mean = BITS * math.log(2) ^ 2 / -math.log(error)
  while error_of(mean, hashes) > error do mean = mean * 0.99 end
  local wanted = R.capacity * 2 ^ (stage - 1)
  local blocks = math.min(MAX_BLOCKS, math.ceil(wanted / mean))
  set('stages', stage)
  set('blocks:' .. name, blocks)
  set('capacity:' .. name, math.min(wanted, math.floor(blocks * mean)))
  set('hashes:' .. name, hashes)
  set('held:' .. name, 0)
  begin()
  call('SETRANGE', stage_key(stage), blocks * BLOCK - 1, '\0')
end

-- Where in a stage the block of an id begins.
local function offset_of(id, stage)
  return math.floor(struct.unpack('>I4', id) / 4294967296 * num('blocks:' .. digits(stage))) * BLOCK
end

-- The bits of an id in its block: a sequence that all of its 64 bits have a part in.
local function bits_of(id, stage)
  local high, low = struct.unpack('>I4I4', id)
  local bits, state = {}, (low * 69069 + high) % 4294967296
  for i = 1, num('hashes:' .. digits(stage)) do
    state = (state * 69069 + low) % 4294967296
    bits[i] = math.floor(state / 4194304)
  end
  return bits
end

-- What may have been added: false is certain.
local function may_be_seen(id)
  for stage = num('stages'), 1, -1 do
    local offset = offset_of(id, stage)
    local block = call('GETRANGE', stage_key(stage), offset, offset + BLOCK - 1)
    local all = true
    for _, at in ipairs(bits_of(id, stage)) do
      if bit.band(string.byte(block, math.floor(at / 8) + 1), MASKS[at % 8]) == 0 then
        all = false
        break
      end
    end
    if all then return true end
  end
  return false
end

local warned = false -- whether the last stage has just become nearly full

local function note_seen(id)
  begin()
  local stage = num('stages')
  if stage == 0 or num('held:' .. digits(stage)) >= num('capacity:' .. digits(stage)) then
    grow()
    stage = num('stages')
  end
  local name, offset = digits(stage), offset_of(id, stage)
  local bytes = {string.byte(call('GETRANGE', stage_key(stage), offset, offset + BLOCK - 1), 1, -1)}
  for _, at in ipairs(bits_of(id, stage)) do
    local i = math.floor(at / 8) + 1
    bytes[i] = bit.bor(bytes[i], MASKS[at % 8])
  end
  call('SETRANGE', stage_key(stage), offset, string.char(unpack(bytes)))
  bump('held:' .. name, 1)
  if num('held:' .. name) == math.ceil(num('capacity:' .. name) * 0.9) then warned = true end
end

-- The chance that the next new id is taken for a known one.
local function present_error()
  local right = 1
  for stage = 1, num('stages') do
    local name = digits(stage)
    local mean = num('held:' .. name) / num('blocks:' .. name)
    right = right * (1 - error_of(mean, num('hashes:' .. name)))
  end
  return 1 - right
end
