-- Steps of training loops, and ranges of one name, that took more than twice their median.
with parts as (
    select run, host, rank, 'step' as name, start_ns, cast(duration_ns as bigint) as duration_ns from steps
    union all
    select run, host, rank, name, start_ns, duration_ns from ranges
), medians as (
    select run, host, rank, name, count(*) as times, {{quantile duration_ns 0.5}} as p50
    from parts where duration_ns is not null
    group by run, host, rank, name having count(*) >= 10
)
select r.run, r.host, r.rank, r.name, r.start_ns, round(r.duration_ns / 1e6, 3) as ms, round(m.p50 / 1e6, 3) as median_ms
from parts r join medians m on r.run = m.run and r.host = m.host and r.rank = m.rank and r.name = m.name
where r.duration_ns > 2 * m.p50
order by r.duration_ns / nullif(m.p50, 0) desc, r.start_ns, r.run, r.host, r.rank, r.name
limit 50
