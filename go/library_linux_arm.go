package litefoot

import "embed"

const folder = "prebuilds/linux-arm"

//go:embed prebuilds/linux-arm
var prebuilt embed.FS
