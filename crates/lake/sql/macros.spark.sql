-- Functions for queries of your own, in Spark's words. union_time needs a table as its argument, which Spark's functions
-- cannot have: the view busy is the union of the GPU's work.

create or replace temporary function bandwidth(bytes bigint, ns bigint) returns double
    return bytes / nullif(ns, 0);
create or replace temporary function overlap(start_a bigint, end_a bigint, start_b bigint, end_b bigint) returns bigint
    return greatest(0, least(end_a, end_b) - greatest(start_a, start_b));
