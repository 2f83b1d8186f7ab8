-- How much of the time between its first and its last work each GPU was idle.
select run, host, rank, device,
       round((max(end_ns) - min(start_ns)) / 1e9, 6) as span_s,
       round(sum(duration_ns) / 1e9, 6) as busy_s,
       round(100.0 * (1 - sum(duration_ns) / nullif(max(end_ns) - min(start_ns), 0)), 2) as idle_percent
from busy
group by run, host, rank, device
having max(end_ns) > min(start_ns)
order by idle_percent desc, run, host, rank, device
