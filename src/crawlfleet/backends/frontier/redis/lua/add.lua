-- Add ids to a filter: of each, whether it was new; and how full the filter is then.

local new = {}
for i, id in ipairs(A.ids) do
  if may_be_seen(id) then
    new[i] = '0'
  else
    note_seen(id)
    new[i] = '1'
  end
end
write_numbers()
local held, blocks = 0, 0
for stage = 1, num('stages') do
  held = held + num('held:' .. digits(stage))
  blocks = blocks + num('blocks:' .. digits(stage))
end
return {
  table.concat(new), digits(held), digits(num('stages')), string.format('%.17g', present_error()),
  digits(blocks * BLOCK),
}
