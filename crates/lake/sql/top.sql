-- Functions by total time: calls, total, median, 99th percentile, longest.
select layer, name, count(*) as calls,
       round(sum(duration_ns) / 1e6, 3) as total_ms,
       round({{quantile duration_ns 0.5}} / 1e3, 3) as p50_us,
       round({{quantile duration_ns 0.99}} / 1e3, 3) as p99_us,
       round(max(duration_ns) / 1e3, 3) as max_us
from calls where duration_ns is not null
group by layer, name
order by total_ms desc, layer, name
limit 20
