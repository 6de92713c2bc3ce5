// Telegraf's plugin for the API alone; `tests/tools/plus-api` builds it below target/.
module freerun.test/telegraf

go 1.25.0

require github.com/influxdata/telegraf v1.37.2
