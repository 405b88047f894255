-- How much work there is for a worker, which is heard of by this.

expire_all()
renew(A.worker)
if begun then write() end
local ready = call('ZCOUNT', P .. ':t', '-inf', digits(A.now))
if num('beginning') > num('round') then ready = 0 end
local room = num('allowed') - num('back') - num('pages') - num('leased')
return {
  digits(version), ready, call('ZCARD', P .. ':t') + num('lent'), call('ZCARD', P .. ':w'),
  call('SCARD', P .. ':m:' .. A.worker), digits(room),
}
