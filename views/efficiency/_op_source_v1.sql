-- one row per run, program and op
-- Where instructions come from in the framework's code, and what they make.
select
    -- run
    run_id,
    -- compiled program
    program_id,
    -- name of the HLO instruction
    op,
    -- op_name of the framework, else file:line of its code; NULL where neither is known
    coalesce(
        min(framework_op),
        min(
            case
                when source_file is not null
                    then concat_ws(':', source_file, cast(source_line as varchar))
            end
        )
    ) as scope,
    -- shape of the result, without its layout where it is not a tuple
    regexp_extract(min(shape), '^([(].*|[^{]*)', 1) as shape
from instructions
group by run_id, program_id, op
