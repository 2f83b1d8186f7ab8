-- Hosts whose kernels are slower than the same kernels of the same run elsewhere, with their GPUs' clocks, throttling and ECC errors.
with per_host as (
    select run, host, name, count(*) as launches, {{quantile duration_ns 0.5}} as p50
    from kernels group by run, host, name having count(*) >= 30
), per_run as (
    select run, name, {{quantile p50 0.5}} as p50 from per_host group by run, name having count(*) >= 2
), slower as (
    select h.run, h.host, sum(h.launches * (h.p50 - r.p50)) as lost_ns, sum(h.launches * r.p50) as usual_ns
    from per_host h join per_run r on h.run = r.run and h.name = r.name
    group by h.run, h.host
), gpus as (
    -- ECC counters are the GPU's since it was reset: what matters is how far they went up.
    select run, host, rank, device, sum(sm_clock_mhz) as clock_sum, count(sm_clock_mhz) as clock_count, max(temperature_c) as hottest_c,
           sum(throttled) as throttled, count(throttled) as watched,
           max(ecc_corrected) - min(ecc_corrected) as ecc_corrected,
           max(ecc_uncorrected) - min(ecc_uncorrected) as ecc_uncorrected
    from samples group by run, host, rank, device
), state as (
    select run, host, 1.0 * sum(clock_sum) / nullif(sum(clock_count), 0) as clock_mhz, max(hottest_c) as hottest_c,
           100.0 * sum(throttled) / nullif(sum(watched), 0) as throttled_percent,
           cast(sum(ecc_corrected) as bigint) as ecc_corrected, cast(sum(ecc_uncorrected) as bigint) as ecc_uncorrected
    from gpus group by run, host
)
select coalesce(s.run, t.run) as run, coalesce(s.host, t.host) as host,
       round(100.0 * s.lost_ns / nullif(s.usual_ns, 0), 2) as slower_percent,
       round(t.clock_mhz, 0) as sm_clock_mhz, round(t.throttled_percent, 1) as throttled_percent, t.hottest_c,
       t.ecc_corrected, t.ecc_uncorrected
from slower s full outer join state t on s.run = t.run and s.host = t.host
order by coalesce(slower_percent, -1e9) desc, coalesce(s.run, t.run), coalesce(s.host, t.host)
