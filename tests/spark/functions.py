"""Functions that Spark rewrites inside, or spells in several ways, over values that bring out differences: NULLs, empty
and foreign texts, negative numbers, NaN and -0.0, hours that a clock skips or repeats, days of another calendar."""

DATA = """SELECT * FROM VALUES
  (1, 'x', 1, 10L, 1.5D, 1.5F, 1.005BD, 'Abc,déf', DATE'2024-02-29', TIMESTAMP'2024-02-29 23:59:59.123456', true, array(3, 1, 2)),
  (2, 'x', -7, -3L, -0.0D, -0.0F, -2.500BD, '', DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999', false, array()),
  (3, 'y', 0, 0L, 0.0D, 0.0F, 0.000BD, 'a_c%', DATE'1582-10-15', TIMESTAMP'2024-03-31 02:30:00', true, array(NULL, 5)),
  (4, 'y', 2147483647, 9223372036854775807L, double('NaN'), float('NaN'), 999999999.999BD, 'ÅΩ x y', DATE'9900-12-31',
   TIMESTAMP'2024-10-27 02:30:00', NULL, array(7, 7, -1)),
  (5, 'y', -2147483648, -9223372036854775808L, double('-Infinity'), float('Infinity'), -999999999.999BD, ' 12 ', DATE'0010-01-01',
   TIMESTAMP'1900-01-01 00:00:00', false, array(0)),
  (6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (7, '', 42, 42L, 1e-300D, 1e-30F, 42.420BD, '2024-01-05', DATE'2024-01-05', TIMESTAMP'2024-01-05 12:00:00', true, array(1)),
  (8, '', 42, 42L, 42.5D, 42.5F, 42.425BD, '{"a": 1, "b": "ü"}', DATE'2023-12-31', TIMESTAMP'2023-12-31 00:00:00', true, array(2, NULL))
  AS t(id, g, i, b, d, f, n, s, dt, ts, bo, xs)"""

TEXT = """split_part(s, ',', 2) | split_part(s, ',', -1) | encode(s, 'UTF-16') | decode(encode(s, 'UTF-8'), 'UTF-8')
  | decode(i, 1, 'one', 42, 'many', 'other') | decode(g, 'x', 1, NULL, 2) | regexp_count(s, '[a-z]') | regexp_substr(s, '[a-c]+')
  | regexp_instr(s, 'c') | regexp_like(s, '^A') | s RLIKE 'x' | regexp_replace(s, '(.)c', '$1!') | regexp_extract_all(s, '(\\\\w)', 1)
  | s ILIKE 'a%' | s LIKE 'a!_c!%' ESCAPE '!' | s LIKE ANY ('a%', 'Å%') | s NOT LIKE ALL ('a%', '%Ω%') | contains(s, 'b')
  | startswith(s, 'A') | endswith(s, '') | left(s, 2) | right(s, 2) | lpad(s, 5, '*') | rpad(encode(s, 'UTF-8'), 4, X'00') | ltrim(s)
  | btrim(s, 'A ') | trim(LEADING 'A' FROM s) | position('c' IN s) | instr(s, 'c') | locate('c', s, 2)
  | overlay(s PLACING '_' FROM 2 FOR 1) | substring(s FROM 2 FOR 3) | substring_index(s, ',', 1) | translate(s, 'abc', 'xy') | initcap(s)
  | upper(s) | lcase(s) | char_length(s) | octet_length(s) | bit_length(s) | ascii(s) | chr(65 + i % 3) | concat_ws('-', s, g, NULL)
  | s || g | repeat(s, 2) | reverse(s) | soundex(s) | levenshtein(s, 'abc') | levenshtein(s, 'abc', 2) | format_string('%s=%05d', s, i)
  | printf('%s', s) | format_number(n, 1) | to_char(n, 'S999999999.999') | to_varchar(n, '999999999.999S')
  | try_to_number(string(i % 100), 'S99')
  | to_number('$78.12', '$99.99') | find_in_set('c', s) | sentences(s) | split(s, '') | split(s, ',', 1) | mask(s) | mask(s, 'Q', 'q')
  | unhex(hex(s)) | base64(encode(s, 'UTF-8')) | unbase64(base64(encode(s, 'UTF-8'))) | try_to_binary(s, 'utf-8')
  | to_binary('ff', 'hex') | is_valid_utf8(s) | make_valid_utf8(s) | try_validate_utf8(s) | quote(s) | url_encode(s) | try_url_decode(s)
  | parse_url('http://x.y/p?q=1', 'QUERY', 'q') | try_parse_url(s, 'HOST') | luhn_check(s) | s COLLATE UTF8_LCASE = 'abc,DÉF'
  | contains(s COLLATE UNICODE_CI, 'B') | collation(s) | collate(s, 'UNICODE') < 'b'
  | replace(s COLLATE UTF8_LCASE, 'A', '!') COLLATE UTF8_BINARY | s BETWEEN 'A' AND 'b' | elt(2, s, g)"""

NUMBERS = """try_add(i, 1) | try_subtract(i, 1) | try_multiply(b, 2) | try_divide(i, 0) | try_mod(i, 0) | try_add(n, 0.5BD)
  | try_divide(n, 7BD)
  | i + 0L | -d | + d | d = -0.0D | d + 0.0D | abs(d) | negative(n) | i % 5 | pmod(i, 5) | mod(i, -5) | b div 2 | n * 1.5 | n / 3 | i / 2
  | round(n, 2) | bround(n, 2) | round(i % 1000, -1) | ceil(n) | ceil(n, 1) | floor(nanvl(d, 0) % 10) | floor(n, 1) | sign(n) | signum(d)
  | sqrt(abs(d)) | cbrt(d) | exp(0 * i) | expm1(0 * n) | ln(i) | log(2, i) | log10(i) | log1p(d) | log2(abs(n)) | pow(n, 2)
  | power(d, 0.5) | hypot(n, 2) | sin(n) | csc(1 + i % 2) | atan2(n, d) | degrees(d) | factorial(i % 20) | hex(b) | bin(i)
  | conv('ff', 16, 10) | greatest(i, 3, NULL) | least(d, 1, f) | greatest(d, -0.0D) | width_bucket(d, 0, 10, 5)
  | width_bucket(n, 10, 0, 5) | isnan(d) | nanvl(d, 1) | rint(d) | i <=> NULL | i IS DISTINCT FROM 1 | equal_null(s, g) | nullif(i, 42)
  | nullif(d, 0) | ifnull(i, 0) | nvl(s, g) | nvl2(i, s, g) | zeroifnull(i) | nullifzero(i) | coalesce(NULL, i, 1) | if(bo, i, b)
  | CASE i WHEN 42 THEN 'x' WHEN 0 THEN s END | CASE WHEN bo THEN 1 WHEN i > 1 THEN 2 ELSE 3 END
  | i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 42) | i NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, NULL)
  | s IN ('', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j') | d IN (0.0D, double('NaN')) | i BETWEEN -7 AND 42
  | i NOT BETWEEN 42 AND 0 | i & 7 | (i|8) | i ^ 5 | ~i | shiftleft(i, 2) | i >> 1 | shiftrightunsigned(b, 3) | i << 1 | bit_count(i)
  | getbit(i, 1) | bit_get(b, 0) | bitmap_bit_position(i) | hash(i, s, d) | xxhash64(s, n, ts) | md5(s) | sha2(s, 256) | sha1(s)
  | crc32(s) | try_cast(s AS INT) | CAST(n AS INT) | CAST(d AS STRING) | CAST(f AS DOUBLE) | CAST(i AS DECIMAL(20,5)) | CAST(bo AS INT)
  | CAST(s AS BINARY) | b::string | double(i) | bigint(i) | try_cast(d AS INT) | try_cast(n AS DECIMAL(5,1)) | string(n) | typeof(n)
  | NOT bo | isnull(i) | isnotnull(i) | bo IS TRUE | bo IS NOT FALSE | bo IS UNKNOWN | NOT (i > 1 AND bo)"""

TIMES = """to_date(string(DATE'2024-01-05' + id), 'yyyy-MM-dd') | try_to_date(s) | to_timestamp(string(dt), 'yyyy-MM-dd')
  | try_to_timestamp(s)
  | try_to_timestamp(s, 'yyyy-MM-dd') | to_timestamp_ntz(ts) | to_timestamp_ltz(dt) | date_format(ts, 'yyyy/MM/dd HH:mm:ss.SSS')
  | date_format(dt, 'EEE') | extract(YEAR FROM dt) | extract(WEEK FROM ts) | extract(DAYOFWEEK_ISO FROM dt) | extract(SECOND FROM ts)
  | date_part('QUARTER', dt) | datepart('doy', dt) | year(dt) | quarter(ts) | month(ts) | weekofyear(dt) | dayofyear(dt) | weekday(dt)
  | dayofweek(dt) | dayname(dt) | monthname(dt) | hour(ts) | minute(ts) | second(ts) | last_day(dt) | next_day(dt, 'MO')
  | make_date(2024, 1 + id, 1) | try_make_timestamp(2024, 1, 1, i % 24, 0, 0) | make_timestamp(2024, 2, 29, 1, 2, 3.5)
  | make_timestamp_ntz(2024, 2, 29, 1, 2, 3) | make_timestamp_ltz(2024, 2, 29, 1, 2, 3, 'Asia/Tokyo') | make_dt_interval(1, 2, 3, 4.5)
  | string(make_ym_interval(1, 2)) | string(try_make_interval(i)) | trunc(dt, 'MM') | trunc(dt, 'week') | date_trunc('HOUR', ts)
  | date_trunc('quarter', ts) | date_trunc(g, ts) | date_add(dt, -3) | date_sub(dt, 1) | dateadd(DAY, -1, dt) | dateadd(MONTH, 1, ts)
  | timestampadd(HOUR, 5, ts) | datediff(dt, DATE'2020-01-01') | datediff(HOUR, ts, TIMESTAMP'2024-01-01 00:00:00')
  | timestampdiff(MONTH, ts, TIMESTAMP'2020-01-31 00:00:00') | date_diff(dt, DATE'2024-03-01')
  | months_between(ts, TIMESTAMP'2024-01-31 10:00:00') | months_between(dt, DATE'2024-01-31', false) | add_months(dt, -1)
  | dt - DATE'2000-01-01' | ts - TIMESTAMP'2000-01-01 00:00:00' | dt - INTERVAL 1 MONTH | ts + INTERVAL '1 02:03' DAY TO MINUTE
  | ts - INTERVAL 2 HOURS | dt + INTERVAL '1-2' YEAR TO MONTH | INTERVAL 1 DAY * (i % 3) | string(INTERVAL '10' MONTH / 3)
  | try_add(dt, INTERVAL 1 DAY) | try_subtract(ts, INTERVAL 1 MONTH) | abs(INTERVAL '-1' DAY) | -(dt - DATE'2000-01-01') | unix_date(dt)
  | date_from_unix_date(i % 1000) | unix_timestamp(ts) | to_unix_timestamp(dt) | from_unixtime(i % 1000, 'yyyy') | unix_micros(ts)
  | unix_millis(ts) | unix_seconds(ts) | timestamp_micros(b % 1000000000) | timestamp_millis(i) | timestamp_seconds(i)
  | from_utc_timestamp(ts, 'Europe/Berlin') | to_utc_timestamp(ts, 'Europe/Berlin')
  | convert_timezone('UTC', 'Asia/Tokyo', to_timestamp_ntz(ts)) | CAST(ts AS DATE) | CAST(dt AS TIMESTAMP) | CAST(ts AS TIMESTAMP_NTZ)
  | CAST(s AS STRING) || CAST(ts AS STRING) | CAST(ts AS DOUBLE) | ts::date | dt = ts | dt > '2020-01-01' | window(ts, '1 hour').start"""

COLLECTIONS = """transform(xs, x -> x * 2) | transform(xs, (x, k) -> x + k + id) | filter(xs, x -> x > 1) | filter(xs, (x, k) -> k > 0)
  | exists(xs, x -> x = 7) | forall(xs, x -> x > 0) | aggregate(xs, 0, (a, x) -> a + coalesce(x, 0))
  | aggregate(xs, 0L, (a, x) -> a + coalesce(x, 0), a -> a * 2) | reduce(xs, id, (a, x) -> a - coalesce(x, 0))
  | zip_with(xs, array(1, 2), (x, y) -> coalesce(x, 0) + y) | transform(xs, x -> transform(xs, y -> x + y))
  | map_keys(map_filter(map('a', 1, 'b', id), (k, v) -> v > 3)) | map_values(transform_values(map('a', id), (k, v) -> v + 1))
  | map_keys(transform_keys(map('a', id), (k, v) -> k || v)) | map_entries(map(id, s)) | map('k', i)['k'] | element_at(map(1, s), 1)
  | try_element_at(xs, 3) | try_element_at(xs, -1) | get(xs, 1) | try_element_at(xs, 1) | try_element_at(map('a', id), 'b')
  | map_from_arrays(array('a'), array(id))['a'] | map_from_entries(array(struct('a', id)))['a'] | map_contains_key(map('a', id), 'a')
  | map_concat(map('a', 1), map('b', id))['b'] | str_to_map('a:1,b:2')['b']
  | map_zip_with(map('a', 1), map('a', id), (k, x, y) -> x + y)['a'] | array_sort(xs)
  | array_sort(xs, (x, y) -> CASE WHEN x > y THEN -1 WHEN x < y THEN 1 ELSE 0 END) | sort_array(xs, false) | array_distinct(xs)
  | array_union(xs, array(1)) | array_intersect(xs, array(1, NULL)) | array_except(xs, array(1)) | array_join(xs, ',')
  | array_join(xs, ',', '?') | array_max(xs) | array_min(xs) | array_position(xs, 7) | array_remove(xs, 7) | array_repeat(s, 2)
  | array_contains(xs, 5) | arrays_overlap(xs, array(5, 1)) | array_append(xs, id) | array_prepend(xs, NULL) | array_compact(xs)
  | array_insert(xs, 2, id) | array_insert(xs, -1, id) | array_size(xs) | size(xs) | cardinality(xs) | slice(xs, 1, 2)
  | flatten(array(xs, xs)) | reverse(xs) | concat(xs, array(9)) | sequence(1, id % 3)
  | sequence(DATE'2024-01-01', date_add(DATE'2024-01-01', id), INTERVAL 2 DAY) | array(i, b) | array(s, NULL)
  | named_struct('a', i, 'b', s) | named_struct('a', i, 'b', s).b | struct(i, s) | struct(i AS q, xs).xs | array(named_struct('a', i)).a
  | struct(d, s) = struct(d, s) | struct(i, s) IN (struct(42, ''), struct(1, 'Abc,déf')) | (i, s) < (2, 'b')
  | from_json(s, 'a INT, b STRING') | from_json(s, 'a INT').a | to_json(named_struct('a', i, 'b', s, 'c', dt))
  | to_json(struct(ts), map('timestampFormat', 'yyyy')) | get_json_object(s, '$.b') | json_array_length('[1,2]') | json_object_keys(s)
  | schema_of_json('{"a":1}') | from_csv(s, 'a STRING, b STRING') | to_csv(struct(i, s)) | schema_of_csv('1,a')
  | from_xml('<r><a>1</a></r>', 'a INT') | to_xml(struct(i AS a)) | xpath_string('<a>b</a>', 'a') | xpath_int('<a>1</a>', 'a')
  | variant_get(parse_json('{"a": [1, "x"]}'), '$.a[1]', 'string') | try_variant_get(try_parse_json(s), '$.a', 'int')
  | to_json(parse_json('{"b": 2}')) | is_variant_null(parse_json('null')) | schema_of_variant(parse_json('[1]')) | hash(xs, struct(i))
  | xxhash64(xs) | try_aes_decrypt(unhex('00'), '0000111122223333') IS NULL | assert_true(true) | bitmap_count(X'FF')"""

AGGREGATES = """sum(i) | sum(b % 100) | sum(n) | sum(d) FILTER (WHERE d BETWEEN -100 AND 100) | sum(DISTINCT i) | try_sum(b)
  | avg(i) | avg(n)
  | try_avg(n) | avg(DISTINCT i) | mean(i) | count(*) | count(i) | count(i, s) | count(DISTINCT i, s) | count_if(i > 0)
  | count(1) FILTER (WHERE bo) | any(bo) | some(bo) | bool_or(bo) | bool_and(bo) | every(bo) | min(s) | max(d) | min(d)
  | min(struct(i, s)) | max(xs) | max(ts) | min(dt) | max(n) | bit_and(i) | bit_or(i) | bit_xor(i) | median(i) | percentile(i, 0.25)
  | percentile(i, array(0.1, 0.9)) | percentile_cont(0.5) WITHIN GROUP (ORDER BY n) | approx_count_distinct(s)
  | approx_count_distinct(i, 0.1) | regr_count(i, id) | regr_avgx(i, id) | regr_avgy(i, id) | max(n) - min(n) + count(*)
  | sum(i) / nullif(count(i), 0) | sum(CASE WHEN bo THEN i END) | max(length(s)) | max(upper(s)) | min(bin(i))
  | sum(INTERVAL '1' DAY * (i % 2)) | string(avg(INTERVAL '3' MONTH * (i % 2))) | sum(f) | try_sum(d)"""

ORDER_SENSITIVE = """min_by(s, id) | max_by(s, id) | percentile_disc(0.5) WITHIN GROUP (ORDER BY i) | mode(g) | mode(i, true)
  | mode() WITHIN GROUP (ORDER BY i) | approx_percentile(i, 0.5) | percentile_approx(i, 0.5, 100) | first(s) | first_value(s) | last(i)
  | last(i, true) | any_value(s) | listagg(s, ',') WITHIN GROUP (ORDER BY s) | listagg(s) | string_agg(s, ',') | array_agg(i)
  | collect_list(i) | collect_set(i) | array_sort(collect_set(i)) | stddev(i) | stddev_pop(n) | variance(i) | var_pop(d) | std(i)
  | corr(i, id) | covar_pop(i, id) | covar_samp(n, id) | regr_slope(i, id) | regr_r2(i, id) | regr_sxx(i, id) | regr_intercept(i, id)
  | skewness(i) | kurtosis(i) | histogram_numeric(i, 3) | hll_sketch_estimate(hll_sketch_agg(i))
  | bitmap_construct_agg(bitmap_bit_position(id)) | max_by(i, struct(n, id)) | schema_of_variant_agg(parse_json('1'))"""


def expressions(texts: str) -> list[str]:
    """The expressions of one of the lists above."""
    return [text.strip() for text in texts.replace("\n", " ").split(" | ")]
