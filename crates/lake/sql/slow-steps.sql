-- Ranges of one name that took more than twice their median: slow steps of a loop that marks them.
with medians as (
    select run, host, rank, name, count(*) as times, {{quantile duration_ns 0.5}} as p50
    from ranges where duration_ns is not null
    group by run, host, rank, name having count(*) >= 10
)
select r.run, r.host, r.rank, r.name, r.start_ns, round(r.duration_ns / 1e6, 3) as ms, round(m.p50 / 1e6, 3) as median_ms
from ranges r join medians m on r.run = m.run and r.host = m.host and r.rank = m.rank and r.name = m.name
where r.duration_ns > 2 * m.p50
order by r.duration_ns / m.p50 desc, r.start_ns
limit 50
