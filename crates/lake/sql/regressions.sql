-- Kernels whose median time differs by more than 5 % between a run and the run before it, with at least 30 launches in both.
with ordered as (
    select run, dense_rank() over (order by first_ns, run) as number
    from (select run, min(start_ns) as first_ns from runs group by run) as firsts
), medians as (
    select o.number, k.run, k.name, count(*) as launches, {{quantile k.duration_ns 0.5}} as p50
    from kernels k join ordered o on o.run = k.run
    group by o.number, k.run, k.name
    having count(*) >= 30
)
select a.name as kernel, b.run as before_run, a.run as run,
       round(b.p50 / 1e3, 3) as before_us, round(a.p50 / 1e3, 3) as now_us,
       round(100.0 * (a.p50 / nullif(b.p50, 0) - 1), 1) as change_percent
from medians a join medians b on a.name = b.name and a.number = b.number + 1
where b.p50 > 0 and abs(a.p50 / nullif(b.p50, 0) - 1) > 0.05
order by change_percent desc, kernel, run
