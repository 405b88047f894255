-- The numbers behind one prefix of keys, KEYS[1], in a hash: read when first asked for, written at
-- the end. A number is written with all its digits: Lua would round a large one.

local P = KEYS[1]
local A = cmsgpack.unpack(ARGV[1])
local call = redis.call
local B = P .. ':b'
local R = A.rules
local MANY = 500 -- arguments that are given to one command

local function digits(n)
  if n == math.floor(n) and n > -1e15 and n < 1e15 then return string.format('%.0f', n) end
  return string.format('%.17g', n)
end

local N, changed = {}, {}

local function num(name)
  local n = N[name]
  if n == nil then
    n = tonumber(call('HGET', B, name)) or 0
    N[name] = n
  end
  return n
end

local function set(name, n)
  N[name] = n
  changed[name] = true
end

local function bump(name, by)
  set(name, num(name) + by)
end

local version = 0

-- The first that a script writes: Redis looks at its memory and its disk then, and lets all that
-- comes after it pass.
local begun = false
local function begin()
  if begun then return end
  begun = true
  version = version + 1
  call('HSET', B, 'version', digits(version))
end

local function write_numbers()
  local numbers = {}
  for name in pairs(changed) do
    numbers[#numbers + 1] = name
    numbers[#numbers + 1] = digits(N[name])
  end
  if #numbers > 0 then call('HSET', B, unpack(numbers)) end
end
