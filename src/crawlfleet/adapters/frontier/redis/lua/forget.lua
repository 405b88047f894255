-- A worker is gone: its leases are over.

if call('ZSCORE', P .. ':w', A.worker) or call('EXISTS', P .. ':m:' .. A.worker) == 1 then
  forget(A.worker)
  write()
end
return {digits(version)}
