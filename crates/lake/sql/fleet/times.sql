-- How often each function and kernel took about so long.
select run, 'function' as what, layer, name, {{bucket duration_ns}} as value, count(*) as n,
       cast(sum(duration_ns) as bigint) as total_ns, max(duration_ns) as max_ns
from calls where duration_ns is not null and name is not null
group by run, layer, name, {{bucket duration_ns}}
union all
select run, 'kernel' as what, 'gpu' as layer, name, {{bucket duration_ns}} as value, count(*) as n,
       cast(sum(duration_ns) as bigint) as total_ns, max(duration_ns) as max_ns
from kernels where duration_ns is not null and name is not null
group by run, name, {{bucket duration_ns}}
