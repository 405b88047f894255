-- Replace entries if all of them are as they were. KEYS: the mark, then the entries.
-- ARGV: the mark as it was; then for each entry how it was ('' for none), how it is to be, and for
-- how many ms it matters. Answers 1, or 0 when something has changed meanwhile.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
for number = 2, #KEYS do
  if (redis.call('GET', KEYS[number]) or '') ~= ARGV[3 * number - 4] then
    return 0
  end
end
for number = 2, #KEYS do
  redis.call('SET', KEYS[number], ARGV[3 * number - 3], 'PX', ARGV[3 * number - 2])
end
return 1
