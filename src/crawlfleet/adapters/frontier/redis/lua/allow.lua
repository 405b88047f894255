-- How many pages a partition may still lease, where several share `max_pages`. Totals that only
-- grow: what is told twice, or late, changes nothing.

if A.step == 'grant' then
  -- In the first partition: let one have as many more as are left, and hear what it gave back.
  local mine = digits(A.round) .. ':' .. digits(A.for_)
  local given, back = 'given:' .. mine, 'back:' .. mine
  local all = 'given:' .. digits(A.round)
  if A.back > num(back) then
    bump(all, num(back) - A.back)
    set(back, A.back)
  end
  local more = math.min(A.more, R.max_pages - num(all))
  if more > 0 then
    bump(given, more)
    bump(all, more)
  end
  if next(changed) then write() end
  return {digits(version), digits(num(given)), digits(math.max(more, 0))}
end
if num('round') == A.round then
  if A.step == 'accept' and A.given > num('allowed') then
    set('allowed', A.given)
    write()
  elseif A.step == 'give back' then
    local spare = num('allowed') - num('back') - num('pages') - num('leased')
    if spare > 0 then
      bump('back', spare)
      write()
    end
  end
end
return {digits(version), digits(num('allowed')), digits(num('back'))}
