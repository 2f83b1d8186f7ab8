-- Each GPU of each rank: how long it worked, and what it was sampled at. ECC counters run on from run to run: their rise counts.
with worked as (
    select run, host, rank, device, cast(max(end_ns) - min(start_ns) as bigint) as span_ns, cast(sum(duration_ns) as bigint) as busy_ns
    from busy group by run, host, rank, device
), sampled as (
    select run, host, rank, device,
           avg(case when gpu_percent >= 50 then sm_clock_mhz end) as clock_mhz,
           count(*) as samples, cast(sum(throttled) as bigint) as throttled, cast(sum(power_limited) as bigint) as power_limited,
           count(throttled) as watched, max(temperature_c) as hottest_c,
           max(ecc_corrected) - min(ecc_corrected) as ecc_corrected,
           max(ecc_uncorrected) - min(ecc_uncorrected) as ecc_uncorrected
    from samples group by run, host, rank, device
)
select coalesce(w.run, s.run) as run, coalesce(w.host, s.host) as host, coalesce(w.rank, s.rank) as rank,
       coalesce(w.device, s.device) as device, w.span_ns, w.busy_ns, s.clock_mhz, s.samples, s.throttled, s.power_limited,
       s.watched, s.hottest_c, s.ecc_corrected, s.ecc_uncorrected
from worked w full outer join sampled s
  on w.run = s.run and w.host = s.host and w.rank = s.rank and w.device = s.device
