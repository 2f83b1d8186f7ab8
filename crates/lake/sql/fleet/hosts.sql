-- How long the kernels of each host took, as a part of what each kernel usually takes, in ten thousandths: how often about so long.
with usual as (
    select name, {{quantile duration_ns 0.5}} as p50
    from kernels where duration_ns is not null group by name having count(*) >= 8
), parts as (
    select k.run, k.host, k.duration_ns, u.p50, cast(round(10000.0 * k.duration_ns / nullif(u.p50, 0)) as bigint) as part
    from kernels k join usual u on k.name = u.name
    where k.duration_ns is not null
)
select run, host, {{bucket part}} as value, count(*) as n,
       cast(sum(duration_ns) as double) as took_ns, cast(sum(p50) as double) as usual_ns
from parts where part is not null
group by run, host, {{bucket part}}
