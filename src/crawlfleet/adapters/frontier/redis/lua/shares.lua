-- How much there is to do, and who has how many hosts; nothing is changed.

local lent = {}
for i, worker in ipairs(call('ZRANGE', P .. ':w', 0, -1)) do
  lent[i] = {worker, call('SCARD', P .. ':m:' .. worker)}
end
return {
  digits(version), num('known'), num('done'), num('leased'), call('ZCARD', P .. ':t'), lent,
}
