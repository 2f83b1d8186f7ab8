-- Device memory that was allocated and never freed, by function and size.
select run, host, rank, pid, name, size, count(*) as blocks, round(sum(size) / 1048576.0, 3) as mib
from allocs a
where op = 'alloc' and not exists (
    select 1 from allocs f
    where f.op = 'free' and f.run = a.run and f.host = a.host and f.rank = a.rank and f.pid = a.pid and f.ptr = a.ptr
      and f.start_ns >= a.start_ns)
group by run, host, rank, pid, name, size
order by mib desc, run, host, rank, pid, name, size
limit 50
