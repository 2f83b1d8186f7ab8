-- Hosts whose kernels are slower than the same kernels of the same run elsewhere, and how hot and fast their GPUs were.
with per_host as (
    select run, host, name, count(*) as launches, {{quantile duration_ns 0.5}} as p50
    from kernels group by run, host, name having count(*) >= 30
), per_run as (
    select run, name, count(*) as hosts, {{quantile p50 0.5}} as p50 from per_host group by run, name having count(*) >= 2
), slower as (
    select h.run, h.host, sum(h.launches * (h.p50 - r.p50)) as lost_ns, sum(h.launches * r.p50) as usual_ns
    from per_host h join per_run r on h.run = r.run and h.name = r.name
    group by h.run, h.host
), state as (
    select run, host, avg(sm_clock_mhz) as clock_mhz, max(temperature_c) as hottest_c from samples group by run, host
)
select s.run, s.host, round(100.0 * s.lost_ns / s.usual_ns, 2) as slower_percent,
       round(t.clock_mhz, 0) as sm_clock_mhz, t.hottest_c
from slower s left join state t on s.run = t.run and s.host = t.host
order by slower_percent desc, s.run, s.host
